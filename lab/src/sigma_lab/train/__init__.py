"""Learning on recorded streams, behind the extra ``[center]``.

``phi`` learns competence directions without a language model, with the ``kinds`` of question told from words.
``steering`` learns W, P and g of the residual steering through a frozen center.
"""
