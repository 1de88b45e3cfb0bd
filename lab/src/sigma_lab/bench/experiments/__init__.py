"""One file per question that the paper or its users ask. Each takes a stream and φ, and returns a `Table`."""
