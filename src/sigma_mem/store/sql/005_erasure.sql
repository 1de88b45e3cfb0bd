-- Forgotten lines whose old bytes may still be in the file or its log, until the file is written anew.
CREATE TABLE erasure (
    seq INTEGER PRIMARY KEY  -- of the record that forgot them
);
