-- unlock --
SELECT pg_advisory_unlock(%s)

-- append --
WITH lines AS (
    INSERT INTO record (namespace, line, kind, id, event, source, body, digest)
    SELECT * FROM unnest(
        %s::integer[], %s::bigint[], %s::bytea[], %s::bytea[], %s::bytea[], %s::bigint[],
        %s::bytea[], %s::bytea[]
    )
), sources AS (
    INSERT INTO source (number, namespace, name, lines, crc)
    SELECT * FROM unnest(%s::bigint[], %s::integer[], %s::bytea[], %s::bigint[], %s::bigint[])
    ON CONFLICT (number) DO UPDATE SET lines = excluded.lines, crc = excluded.crc
)
INSERT INTO namespace (number, name, lines, sourced, head, crc) VALUES (%s, %s, %s, %s, %s, %s)
ON CONFLICT (number) DO UPDATE
SET lines = excluded.lines, sourced = excluded.sourced, head = excluded.head, crc = excluded.crc

-- erase --
UPDATE record SET body = %s, digest = %s WHERE namespace = %s AND line = %s

-- mark_erasure --
INSERT INTO erasure (namespace, line) VALUES (%s, %s)

-- erasures --
SELECT namespace, line FROM erasure WHERE NOT finished

-- finish_erasure --
UPDATE erasure SET finished = true WHERE namespace = %s AND line = %s

-- next_space --
SELECT nextval('namespace_number')

-- next_source --
SELECT nextval('source_number')

-- spaces --
SELECT number, name, lines, sourced, head, crc, lines FROM namespace ORDER BY number

-- space --
SELECT number, name, lines, sourced, head, crc, lines FROM namespace WHERE number = %s

-- space_named --
SELECT number, name, lines, sourced, head, crc, lines FROM namespace WHERE name = %s

-- sources --
SELECT s.number, s.namespace, s.name, s.lines, s.crc, n.sourced
FROM namespace AS n LEFT JOIN source AS s ON s.namespace = n.number WHERE n.number = %s ORDER BY s.number

-- exists --
SELECT 1 FROM record WHERE namespace = %s AND kind = %s AND id = %s

-- find --
SELECT line, namespace, line, kind, id, event, source, body, digest FROM record
WHERE namespace = %s AND kind = %s AND id = %s

-- of_event --
SELECT line, namespace, line, kind, id, event, source, body, digest FROM record
WHERE namespace = %s AND event = %s AND event IS NOT NULL AND event <> ''
UNION ALL
SELECT line, namespace, line, kind, id, event, source, body, digest FROM record
WHERE namespace = %s AND kind = 'd' AND id = %s AND event IS NULL
ORDER BY 1

-- page_of_source --
SELECT line, namespace, line, kind, id, event, source, body, digest FROM record
WHERE source = %s AND line > %s AND line <= %s ORDER BY line LIMIT %s

-- page --
SELECT line, namespace, line, kind, id, event, source, body, digest FROM record
WHERE namespace = %s AND line > %s AND line <= %s ORDER BY line LIMIT %s

-- line_before --
SELECT line, namespace, line, kind, id, event, source, body, digest FROM record
WHERE namespace = %s AND line <= %s ORDER BY line DESC LIMIT 1

-- line_after --
SELECT line, namespace, line, kind, id, event, source, body, digest FROM record
WHERE namespace = %s AND line > %s ORDER BY line LIMIT 1

-- at --
SELECT line, namespace, line, kind, id, event, source, body, digest FROM record
WHERE namespace = %s AND line = %s

-- strays --
SELECT count(*) FROM record WHERE namespace NOT IN (SELECT number FROM namespace)

-- save_snapshot --
INSERT INTO snapshot (namespace, version, seq, lines, head, crc, body)
SELECT * FROM (VALUES (%s::bytea, {version}, %s::bigint, %s::bigint, %s::bytea, %s::bigint, %s::bytea))
    AS new (namespace, version, seq, lines, head, crc, body)
WHERE NOT EXISTS (SELECT 1 FROM erasure AS e WHERE e.namespace = new.namespace AND e.line > new.seq)
ON CONFLICT (namespace, version) DO UPDATE
SET seq = excluded.seq, lines = excluded.lines, head = excluded.head, crc = excluded.crc, body = excluded.body
WHERE excluded.seq >= snapshot.seq

-- load_snapshot --
SELECT seq, lines, head, crc, body FROM snapshot AS s WHERE namespace = %s AND version = {version}
AND NOT EXISTS (SELECT 1 FROM erasure AS e WHERE e.namespace = s.namespace AND e.line > s.seq)

-- drop_snapshot --
DELETE FROM snapshot WHERE namespace = %s
