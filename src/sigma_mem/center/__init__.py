"""A real language model as center: it is steered by the memory and judges the peers' answers.

Everything here needs the extra ``[center]``. ``Center`` is the one object a user meets: a frozen
causal LM that, given a question, the peers' answers and their memory readouts M_pφ, returns the utility
U_p of each. Its parts stand beside it, one idea a file: ``load`` and ``pull`` find weights, ``blocks``
finds the decoder's blocks, ``steer`` shifts their inputs, ``project`` turns a readout into a shift, ``split``
runs the model in two halves, ``prefix`` shares the question between peers, ``cache`` keeps the lower half on
disk, ``rows`` joins these, ``prompt`` and ``judge`` ask and read the verdict, ``encoder`` makes φ from the
center's own hidden states.
"""

from sigma_mem.center.extra import require_center

require_center()
