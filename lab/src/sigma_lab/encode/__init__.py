"""What fits the encoders of `sigma_mem.encode`, which only run what was fitted here."""
