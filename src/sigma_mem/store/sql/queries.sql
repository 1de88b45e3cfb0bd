-- last --
SELECT coalesce(max(seq), 0) FROM record

-- append --
INSERT INTO record (seq, namespace, kind, id, event, body, phi, crc) VALUES (?, ?, ?, ?, ?, ?, ?, ?)

-- exists --
SELECT 1 FROM record WHERE namespace = ? AND kind = ? AND id = ?

-- find --
SELECT seq, namespace, kind, id, event, body, phi, crc FROM record
WHERE namespace = ? AND kind = ? AND id = ?

-- of_event --
SELECT seq, namespace, kind, id, event, body, phi, crc FROM record
WHERE namespace = ? AND event = ? AND event <> '' ORDER BY seq

-- page_of_source --
SELECT seq, namespace, kind, id, event, body, phi, crc FROM record
WHERE namespace = ? AND kind = 'feedback'
    AND CASE WHEN json_valid(body) THEN json_extract(body, '$.source') END = ? AND seq > ? AND seq <= ?
ORDER BY seq LIMIT ?

-- sources --
SELECT CASE WHEN json_valid(body) THEN json_extract(body, '$.source') END AS source, count(*)
FROM record INDEXED BY record_by_source
WHERE namespace = ? AND kind = 'feedback' AND source IS NOT NULL GROUP BY source

-- page --
SELECT seq, namespace, kind, id, event, body, phi, crc FROM record
WHERE namespace = ? AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?

-- page_of_all --
SELECT seq, namespace, kind, id, event, body, phi, crc FROM record
WHERE seq > ? ORDER BY seq LIMIT ?

-- namespaces --
WITH RECURSIVE named (name) AS (
    SELECT min(namespace) FROM record
    UNION ALL
    SELECT (SELECT min(namespace) FROM record WHERE namespace > name) FROM named WHERE name IS NOT NULL
)
SELECT name FROM named WHERE name IS NOT NULL

-- save_snapshot --
INSERT INTO snapshot (namespace, seq, crc, body) VALUES (?, ?, ?, ?)
ON CONFLICT (namespace) DO UPDATE SET seq = excluded.seq, crc = excluded.crc, body = excluded.body

-- load_snapshot --
SELECT seq, crc, body FROM snapshot WHERE namespace = ?

-- integrity_check --
PRAGMA integrity_check(1)
