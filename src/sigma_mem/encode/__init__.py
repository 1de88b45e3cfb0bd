"""Text to φ: the default static embedder, MiniLM, a numpy-only one, sentence-transformers, and your own."""

from sigma_mem.encode.base import ENCODERS, Encoder, open_encoder, unit
from sigma_mem.encode.custom import CustomEncoder

__all__ = ["ENCODERS", "CustomEncoder", "Encoder", "open_encoder", "unit"]
