"""The league table: recorded streams, every baseline, the rivals, and the experiments over them.

`play` plays a stream event by event (decide, reveal, write) through :class:`~sigma_mem.session.SigmaMem`
itself or through any other router; `replayed` computes the same choices in chunks where every label comes on
time; `league` makes a row of each mechanism; `experiments` holds one file per table of the paper, and `table`
prints and draws what they found.
"""
