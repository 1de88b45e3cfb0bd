"""The league table: recorded streams, every baseline, the rivals, and the experiments over them.

`play` plays a stream event by event (decide, reveal, write) through :class:`~sigma_mem.session.SigmaMem`
itself or through any other router. `league` makes a row of each mechanism. `experiments` holds one file per
question, each of which returns a `Table`.
"""
