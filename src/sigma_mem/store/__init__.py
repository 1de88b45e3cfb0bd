"""Where a memory lives: an append-only ledger, and snapshots derived from it."""
