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
