"""Text to φ: the default static embedder, a numpy-only one, sentence-transformers, and the protocol."""

from sigma_mem.encode.base import ENCODERS, Encoder, open_encoder, unit

__all__ = ["ENCODERS", "Encoder", "open_encoder", "unit"]
