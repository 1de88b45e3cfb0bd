"""Learning on recorded streams, behind the extra ``[center]``.

``steering`` learns W, P and g of the residual steering through a frozen center.
"""
