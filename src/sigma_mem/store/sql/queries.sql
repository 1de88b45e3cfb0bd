-- line --
SELECT r.namespace, r.seq, r.kind, r.id, r.event, r.source, r.body, r.digest, p.digest AS before
FROM record AS r LEFT JOIN record AS p ON p.namespace = r.namespace AND p.seq = r.seq - 1

-- space --
SELECT number, name, lines, head, erased, crc, (SELECT digest FROM record WHERE namespace = number AND seq = ?)
FROM namespace WHERE name = ?

-- spaces --
SELECT number, name, lines, head, erased, crc FROM namespace ORDER BY number

-- save_space --
INSERT INTO namespace (number, name, lines, head, erased, crc) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (number) DO UPDATE
SET lines = excluded.lines, head = excluded.head, erased = excluded.erased, crc = excluded.crc

-- strays --
SELECT count(*) FROM record AS r LEFT JOIN namespace AS n ON n.number = r.namespace
WHERE n.number IS NULL OR r.seq > n.lines

-- find --
SELECT * FROM {line} WHERE namespace = (SELECT number FROM namespace WHERE name = ?) AND kind = ? AND id = ?

-- of_event --
SELECT * FROM {line}
WHERE namespace = (SELECT number FROM namespace WHERE name = ?) AND event = ? AND event IS NOT NULL AND event <> ''
UNION ALL
SELECT * FROM {line}
WHERE namespace = (SELECT number FROM namespace WHERE name = ?) AND kind = 'd' AND id = ? AND event IS NULL

-- page --
SELECT * FROM {line} WHERE namespace = ? AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?

-- page_of_source --
SELECT * FROM {line} WHERE namespace = ? AND source = ? AND source IS NOT NULL AND seq > ? AND seq <= ?
ORDER BY seq LIMIT ?

-- sources --
SELECT source, count(*) FROM record
WHERE namespace = (SELECT number FROM namespace WHERE name = ?) AND source IS NOT NULL GROUP BY source

-- at --
SELECT * FROM {line} WHERE namespace = ? AND seq = ?

-- append --
INSERT INTO record (namespace, seq, kind, id, event, source, body, digest) VALUES (?, ?, ?, ?, ?, ?, ?, ?)

-- erase --
UPDATE record SET id = ?, body = ?, digest = ?, source = NULL WHERE namespace = ? AND seq = ?

-- mark_erasure --
INSERT INTO erasure (namespace, seq) VALUES (?, ?)

-- erasures --
SELECT namespace, seq FROM erasure

-- finish_erasure --
DELETE FROM erasure WHERE namespace = ? AND seq = ?

-- save_snapshot --
INSERT INTO snapshot (namespace, seq, head, crc, body)
SELECT n.number, r.seq, substr(r.digest, 1, 16), ?, ?
FROM namespace AS n JOIN record AS r ON r.namespace = n.number
JOIN record AS known ON known.namespace = n.number
WHERE n.name = ? AND r.seq = ? AND r.seq >= n.erased AND known.seq = ? AND substr(known.digest, 1, 16) = ?
ON CONFLICT (namespace) DO UPDATE
SET seq = excluded.seq, head = excluded.head, crc = excluded.crc, body = excluded.body
WHERE excluded.seq >= snapshot.seq OR NOT EXISTS (
    SELECT 1 FROM record AS r
    WHERE r.namespace = snapshot.namespace AND r.seq = snapshot.seq AND substr(r.digest, 1, 16) = snapshot.head
)

-- load_snapshot --
SELECT s.seq, s.crc, s.body FROM snapshot AS s
JOIN namespace AS n ON n.number = s.namespace
JOIN record AS r ON r.namespace = s.namespace AND r.seq = s.seq
WHERE n.name = ? AND s.seq >= n.erased AND substr(r.digest, 1, 16) = s.head

-- drop_snapshot --
DELETE FROM snapshot WHERE namespace = ?
