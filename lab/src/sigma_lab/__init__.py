"""The laboratory of Σ-Mem: it reproduces the paper, measures, collects streams and trains.

`bench` plays recorded streams and makes the tables, `collect` collects and grades peers' answers, `train`
learns φ and steerings, and `cli` adds the commands ``bench``, ``data``, ``import``, ``paper`` and ``train``
to ``sigma-mem``. Nothing in `sigma_mem` imports it.
"""
