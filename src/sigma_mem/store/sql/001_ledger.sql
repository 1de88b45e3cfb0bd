-- The ledger: one row per record, never changed and never removed.
CREATE TABLE record (
    seq       INTEGER PRIMARY KEY,
    namespace TEXT    NOT NULL,
    kind      TEXT    NOT NULL,
    id        TEXT    NOT NULL,
    event     TEXT    NOT NULL,
    body      TEXT    NOT NULL,
    phi       BLOB    NOT NULL,
    crc       INTEGER NOT NULL  -- CRC32 over all of the above
);

CREATE UNIQUE INDEX record_by_id ON record (namespace, kind, id);
CREATE INDEX record_by_namespace ON record (namespace);  -- the row's seq is part of every index
CREATE INDEX record_by_event ON record (namespace, event) WHERE event <> '';

CREATE TRIGGER record_is_never_changed BEFORE UPDATE ON record
BEGIN
    SELECT RAISE(ABORT, 'the ledger is append-only');
END;

CREATE TRIGGER record_is_never_removed BEFORE DELETE ON record
BEGIN
    SELECT RAISE(ABORT, 'the ledger is append-only');
END;
