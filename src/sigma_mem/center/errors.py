"""What can go wrong with a center model at run time."""

from __future__ import annotations

from sigma_mem.errors import SigmaMemError


class CenterError(SigmaMemError):
    """The center model is not available or cannot do what was requested."""


class CheckpointError(CenterError):
    """A checkpoint is damaged, of another kind, or was made with other settings."""


class DownloadError(CenterError):
    """Weights could not be fetched, or are not the bytes that were expected; nothing was kept."""


class ModelShapeError(CenterError):
    """The model has no decoder blocks, no unembedding, or no Yes/No tokens to read."""


class SteeringMismatchError(CenterError):
    """A steering checkpoint was learned for another model, rank or encoder."""
