"""Learning on recorded streams, behind the extra ``[center]``.

``phi`` learns competence directions without a language model; ``steering`` learns W, P and g of the
residual steering through a frozen center, on ``episodes`` in which only the memory can say who is
reliable. What is learned is kept by ``checkpoint`` as safetensors.
"""
