-- The ledger: lines of every namespace, never removed; changed only where one is forgotten.
-- Texts are bytes: PostgreSQL's texts cannot hold every character, and need no order here.
CREATE SEQUENCE namespace_number AS integer;
CREATE TABLE namespace (
    number  integer PRIMARY KEY,
    name    bytea   NOT NULL UNIQUE,
    lines   bigint  NOT NULL,
    sourced bigint  NOT NULL,  -- lines that have a source
    head    bytea   NOT NULL,  -- digest of all lines in order
    crc     bigint  NOT NULL
);

CREATE SEQUENCE source_number AS bigint;
CREATE TABLE source (
    number    bigint  PRIMARY KEY,
    namespace integer NOT NULL,
    name      bytea   NOT NULL,
    lines     bigint  NOT NULL,
    crc       bigint  NOT NULL,
    UNIQUE (namespace, name)
);

CREATE TABLE record (
    namespace integer NOT NULL,
    line      bigint  NOT NULL,  -- position in its namespace, from 1
    kind      bytea   NOT NULL,
    id        bytea   NOT NULL,
    event     bytea,             -- NULL for the first decision of an event, whose id it is
    source    bigint,
    body      bytea   NOT NULL,  -- salt, packed body
    digest    bytea   NOT NULL,
    PRIMARY KEY (namespace, line)
);
CREATE UNIQUE INDEX record_by_id ON record (namespace, kind, id);
CREATE INDEX record_by_event ON record (namespace, event, line) WHERE event IS NOT NULL AND event <> '';
CREATE INDEX record_by_source ON record (source, line) WHERE source IS NOT NULL;

CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the ledger is append-only';
END $$;

CREATE TRIGGER record_is_never_changed BEFORE UPDATE ON record FOR EACH ROW
WHEN (substr(new.digest, 1, 16) <> substr(old.digest, 1, 16) OR length(new.digest) <> 32
    OR (new.namespace, new.line, new.kind, new.id) <> (old.namespace, old.line, old.kind, old.id))
EXECUTE FUNCTION refuse_change();

CREATE TRIGGER record_is_never_removed BEFORE DELETE ON record FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER record_is_never_emptied BEFORE TRUNCATE ON record EXECUTE FUNCTION refuse_change();

-- Derived state of a namespace after line seq: one row for each version of the format, replaced as a whole.
CREATE TABLE snapshot (
    namespace bytea   NOT NULL,
    version   integer NOT NULL,
    seq       bigint  NOT NULL,
    lines     bigint  NOT NULL,  -- place in the chain
    head      bytea   NOT NULL,
    crc       bigint  NOT NULL,
    body      bytea   NOT NULL,
    PRIMARY KEY (namespace, version)
);

-- Lines that forgot others. No snapshot from before one is saved after it.
CREATE TABLE erasure (
    namespace bytea   NOT NULL,
    line      bigint  NOT NULL,
    finished  boolean NOT NULL DEFAULT false,  -- whether the table was written anew since
    PRIMARY KEY (namespace, line)
);
