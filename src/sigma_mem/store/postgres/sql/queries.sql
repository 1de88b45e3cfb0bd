-- unlock --
SELECT pg_advisory_unlock(?)

-- next_space --
SELECT nextval('namespace_number')

-- append --
WITH lines AS (
    INSERT INTO record (namespace, seq, kind, id, event, source, body, digest)
    SELECT * FROM unnest(
        ?::integer[], ?::bigint[], ?::bytea[], ?::bytea[], ?::bytea[], ?::bytea[], ?::bytea[], ?::bytea[]
    )
)
INSERT INTO namespace (number, name, lines, head, erased, crc) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (number) DO UPDATE
SET lines = excluded.lines, head = excluded.head, erased = excluded.erased, crc = excluded.crc

-- rewrite_record --
ALTER TABLE record ALTER COLUMN source TYPE bytea USING source || ''::bytea

-- rewrite_snapshot --
ALTER TABLE snapshot ALTER COLUMN body TYPE bytea USING body || ''::bytea
