"""One file per question of the paper or its users. Each takes a stream and φ, and returns a `Table`."""
