"""The league table: recorded streams, every baseline, the rivals, and the experiments over them.

:mod:`~sigma_mem.bench.progressive` plays a stream event by event (decide, reveal, write) through
:class:`~sigma_mem.session.SigmaMem` itself or through any other router;
:mod:`~sigma_mem.bench.replayed` computes the same choices in chunks where every label comes on
time; `experiments` holds one file per table of the paper, and `report` writes what they found.
"""
