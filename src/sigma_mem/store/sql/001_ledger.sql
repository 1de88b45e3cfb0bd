-- The ledger of every namespace: its lines have digests in a chain, and are kept small.
CREATE TABLE namespace (
    number INTEGER PRIMARY KEY,  -- 1, 2, …
    name   TEXT    NOT NULL UNIQUE,
    lines  INTEGER NOT NULL,
    head   BLOB    NOT NULL,     -- digest of the last line
    erased INTEGER NOT NULL,     -- last line that forgot others
    crc    INTEGER NOT NULL
);

-- One row per line, never removed; changed only when a line is forgotten, whose digest stays.
CREATE TABLE record (
    namespace INTEGER NOT NULL,
    seq       INTEGER NOT NULL,  -- position in its namespace, from 1
    kind      TEXT    NOT NULL,
    id        TEXT    NOT NULL,
    event     TEXT,              -- NULL for the first decision of an event, whose id it is
    source    TEXT,
    body      BLOB    NOT NULL,  -- salt, packed body
    digest    BLOB    NOT NULL   -- of the line before and of this one
);
CREATE UNIQUE INDEX record_by_seq ON record (namespace, seq);
CREATE UNIQUE INDEX record_by_id ON record (namespace, kind, id);
CREATE INDEX record_by_event ON record (namespace, event) WHERE event IS NOT NULL AND event <> '';
CREATE INDEX record_by_source ON record (namespace, source, seq) WHERE source IS NOT NULL;

CREATE TRIGGER record_is_never_changed BEFORE UPDATE ON record
WHEN substr(new.digest, 1, 16) <> substr(old.digest, 1, 16) OR length(new.digest) <> 32
    OR (new.namespace, new.seq, new.kind) <> (old.namespace, old.seq, old.kind) OR new.event IS NOT old.event
BEGIN
    SELECT RAISE(ABORT, 'the ledger is append-only');
END;

CREATE TRIGGER record_is_never_removed BEFORE DELETE ON record
BEGIN
    SELECT RAISE(ABORT, 'the ledger is append-only');
END;

-- Derived state of a namespace after line seq: one row each, replaced as a whole.
CREATE TABLE snapshot (
    namespace INTEGER PRIMARY KEY,
    seq       INTEGER NOT NULL,
    head      BLOB    NOT NULL,  -- digest of line seq
    crc       INTEGER NOT NULL,
    body      BLOB    NOT NULL
);

-- Lines that forgot others, while bytes of those may still be in the file or its log.
CREATE TABLE erasure (
    namespace INTEGER NOT NULL,
    seq       INTEGER NOT NULL
);
