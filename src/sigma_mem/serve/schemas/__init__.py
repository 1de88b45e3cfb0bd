"""What requests hold and what responses look like: the one place with pydantic."""
