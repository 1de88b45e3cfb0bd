"""Text to φ: the default static embedder, a numpy-only one, sentence-transformers, and the protocol."""

from sigma_mem.encode.base import Encoder, unit
from sigma_mem.errors import InputError

__all__ = ["ENCODERS", "Encoder", "open_encoder", "unit"]

ENCODERS = ("static", "hashed", "sentence")


def open_encoder(name: str) -> Encoder:
    """The encoder of this name; its weights are loaded when it first encodes."""
    if name == "static":
        from sigma_mem.encode.static import StaticEncoder

        return StaticEncoder()
    if name == "hashed":
        from sigma_mem.encode.hashed import HashedEncoder

        return HashedEncoder()
    if name == "sentence":
        from sigma_mem.encode.sentence import SentenceEncoder

        return SentenceEncoder()
    raise InputError(f"encoder is {name!r}; expected 'static', 'hashed', 'sentence' or an Encoder object")
