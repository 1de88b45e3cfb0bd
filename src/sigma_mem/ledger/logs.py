"""The log of a memory: the standard logger "sigma_mem", quiet until a program gives it a handler.

Warnings name a remedy; info reports what changed a memory permanently (peers, sources, forgetting,
refolding).
"""

import logging

LOG = logging.getLogger("sigma_mem")
LOG.addHandler(logging.NullHandler())
