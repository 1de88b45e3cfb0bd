-- last --
SELECT coalesce(max(seq), 0) FROM record

-- append --
INSERT INTO record (seq, namespace, line, kind, id, event, source, body, digest)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)

-- erase --
UPDATE record SET body = ?, digest = ? WHERE seq = ?

-- mark_erasure --
INSERT INTO erasure (seq) VALUES (?)

-- erasures --
SELECT seq FROM erasure LIMIT 1

-- save_space --
INSERT INTO namespace (number, name, lines, sourced, head, crc) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (number) DO UPDATE
SET lines = excluded.lines, sourced = excluded.sourced, head = excluded.head, crc = excluded.crc

-- spaces --
SELECT number, name, lines, sourced, head, crc, newest
FROM (SELECT coalesce(max(seq), 0) AS newest FROM record) LEFT JOIN namespace ORDER BY number

-- head --
SELECT lines, head FROM namespace WHERE number = ?

-- space --
SELECT number, name, lines, sourced, head, crc, (SELECT coalesce(max(seq), 0) FROM record)
FROM namespace WHERE number = ?

-- save_source --
INSERT INTO source (number, namespace, name, lines, crc) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (number) DO UPDATE SET lines = excluded.lines, crc = excluded.crc

-- last_source --
SELECT coalesce(max(number), 0) FROM source

-- sources --
SELECT s.number, s.namespace, s.name, s.lines, s.crc, n.sourced
FROM namespace AS n LEFT JOIN source AS s ON s.namespace = n.number WHERE n.number = ? ORDER BY s.number

-- exists --
SELECT 1 FROM record WHERE namespace = ? AND kind = ? AND id = ?

-- find --
SELECT seq, namespace, line, kind, id, event, source, body, digest FROM record
WHERE namespace = ? AND kind = ? AND id = ?

-- of_event --
SELECT seq, namespace, line, kind, id, event, source, body, digest FROM record
WHERE namespace = ?1 AND event = ?2 AND event IS NOT NULL AND event <> ''
UNION ALL
SELECT seq, namespace, line, kind, id, event, source, body, digest FROM record
WHERE namespace = ?1 AND kind = 'd' AND id = ?2 AND event IS NULL
ORDER BY seq

-- page_of_source --
SELECT seq, namespace, line, kind, id, event, source, body, digest FROM record
WHERE source = ? AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?

-- page --
SELECT seq, namespace, line, kind, id, event, source, body, digest FROM record
WHERE namespace = ? AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?

-- line_before --
SELECT seq, namespace, line, kind, id, event, source, body, digest FROM record
WHERE namespace = ? AND seq <= ? ORDER BY seq DESC LIMIT 1

-- line_after --
SELECT seq, namespace, line, kind, id, event, source, body, digest FROM record
WHERE namespace = ? AND seq > ? ORDER BY seq LIMIT 1

-- at --
SELECT seq, namespace, line, kind, id, event, source, body, digest FROM record WHERE seq = ?

-- save_snapshot --
INSERT INTO snapshot (namespace, seq, lines, head, crc, body) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (namespace) DO UPDATE
SET seq = excluded.seq, lines = excluded.lines, head = excluded.head, crc = excluded.crc, body = excluded.body

-- load_snapshot --
SELECT seq, lines, head, crc, body FROM snapshot WHERE namespace = ?

-- drop_snapshot --
DELETE FROM snapshot WHERE namespace = ?

-- integrity_check --
PRAGMA integrity_check(1)
