-- The ledger of every namespace: lines, never removed; changed only when one is forgotten.
-- Texts are bytes: PostgreSQL's texts cannot hold every character, and need no order here.
CREATE SEQUENCE namespace_number AS integer;
CREATE TABLE namespace (
    number integer PRIMARY KEY,
    name   bytea   NOT NULL UNIQUE,
    lines  bigint  NOT NULL,
    head   bytea   NOT NULL,  -- digest of the last line
    erased bigint  NOT NULL,  -- last line that forgot others
    crc    bigint  NOT NULL
);

CREATE TABLE record (
    namespace integer NOT NULL,
    seq       bigint  NOT NULL,  -- position in its namespace, from 1
    kind      bytea   NOT NULL,
    id        bytea   NOT NULL,
    event     bytea,             -- NULL for the first decision of an event, whose id it is
    source    bytea,
    body      bytea   NOT NULL,  -- salt, packed body
    digest    bytea   NOT NULL,  -- of the line before and of this one
    PRIMARY KEY (namespace, seq)
);
CREATE UNIQUE INDEX record_by_id ON record (namespace, kind, id);
CREATE INDEX record_by_event ON record (namespace, event) WHERE event IS NOT NULL AND event <> '';
CREATE INDEX record_by_source ON record (namespace, source, seq) WHERE source IS NOT NULL;

CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the ledger is append-only';
END $$;

CREATE TRIGGER record_is_never_changed BEFORE UPDATE ON record FOR EACH ROW
WHEN (substr(new.digest, 1, 16) <> substr(old.digest, 1, 16) OR length(new.digest) <> 32
    OR (new.namespace, new.seq, new.kind) <> (old.namespace, old.seq, old.kind)
    OR new.event IS DISTINCT FROM old.event)
EXECUTE FUNCTION refuse_change();

CREATE TRIGGER record_is_never_removed BEFORE DELETE ON record FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER record_is_never_emptied BEFORE TRUNCATE ON record EXECUTE FUNCTION refuse_change();

-- Derived state of a namespace after line seq: one row each, replaced as a whole.
CREATE TABLE snapshot (
    namespace integer PRIMARY KEY,
    seq       bigint  NOT NULL,
    head      bytea   NOT NULL,  -- digest of line seq
    crc       bigint  NOT NULL,
    body      bytea   NOT NULL
);

-- Lines that forgot others, while bytes of those may still be in the tables' files.
CREATE TABLE erasure (
    namespace integer NOT NULL,
    seq       bigint  NOT NULL
);
