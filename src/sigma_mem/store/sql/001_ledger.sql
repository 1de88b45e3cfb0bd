-- The ledger proves that it is whole: lines have digests in a chain, and are kept small.
CREATE TABLE namespace (
    number  INTEGER PRIMARY KEY,  -- 1, 2, …
    name    TEXT    NOT NULL UNIQUE,
    lines   INTEGER NOT NULL,
    sourced INTEGER NOT NULL,     -- lines that have a source
    head    BLOB    NOT NULL,     -- digest of all lines in order
    crc     INTEGER NOT NULL
);

CREATE TABLE source (
    number    INTEGER PRIMARY KEY,  -- 1, 2, …
    namespace INTEGER NOT NULL,
    name      TEXT    NOT NULL,
    lines     INTEGER NOT NULL,
    crc       INTEGER NOT NULL
);
CREATE INDEX source_by_namespace ON source (namespace);

-- One row per record, never removed; changed only where a line is forgotten, whose digest stays.
CREATE TABLE record (
    seq       INTEGER PRIMARY KEY,
    namespace INTEGER NOT NULL,
    line      INTEGER NOT NULL,  -- position in its namespace, from 1
    kind      TEXT    NOT NULL,
    id        TEXT    NOT NULL,
    event     TEXT,              -- NULL for the first decision of an event, whose id it is
    source    INTEGER,
    body      BLOB    NOT NULL,  -- salt, packed body
    digest    BLOB    NOT NULL
);
CREATE UNIQUE INDEX record_by_id ON record (namespace, kind, id);
CREATE INDEX record_by_namespace ON record (namespace);  -- the row's seq is part of every index
CREATE INDEX record_by_event ON record (namespace, event) WHERE event IS NOT NULL AND event <> '';
CREATE INDEX record_by_source ON record (source) WHERE source IS NOT NULL;

CREATE TRIGGER record_is_never_changed BEFORE UPDATE ON record
WHEN substr(new.digest, 1, 16) <> substr(old.digest, 1, 16) OR length(new.digest) <> 32
    OR (new.seq, new.namespace, new.line, new.kind, new.id) <> (old.seq, old.namespace, old.line, old.kind, old.id)
BEGIN
    SELECT RAISE(ABORT, 'the ledger is append-only');
END;

CREATE TRIGGER record_is_never_removed BEFORE DELETE ON record
BEGIN
    SELECT RAISE(ABORT, 'the ledger is append-only');
END;

-- Derived state of a namespace after record seq: one row each, replaced as a whole.
CREATE TABLE snapshot (
    namespace TEXT    PRIMARY KEY,
    seq       INTEGER NOT NULL,
    lines     INTEGER NOT NULL,  -- place in the chain
    head      BLOB    NOT NULL,
    crc       INTEGER NOT NULL,
    body      BLOB    NOT NULL
);

-- Forgotten lines whose old bytes may still be in the file or its log, until the file is written anew.
CREATE TABLE erasure (
    seq INTEGER PRIMARY KEY  -- of the record that forgot them
);
