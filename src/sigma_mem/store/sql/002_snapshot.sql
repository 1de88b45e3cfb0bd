-- Derived state of a namespace after record seq: one row each, replaced as a whole.
CREATE TABLE snapshot (
    namespace TEXT    PRIMARY KEY,
    seq       INTEGER NOT NULL,
    crc       INTEGER NOT NULL,  -- CRC32 over namespace, seq and body
    body      BLOB    NOT NULL
);
