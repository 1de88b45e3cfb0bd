"""Every table and figure of the paper from three streams, with the paper's own figures next to them.

``inputs`` holds the streams, ``play`` what every mechanism chose on them, ``tables`` the tables, ``figures``
their pictures, ``published`` what the paper printed, ``plan`` what a run will take; ``report`` writes it all.
"""

from sigma_lab.bench.paper.inputs import PaperStreams, open_streams
from sigma_lab.bench.paper.play import CenterRows, PaperPlay
from sigma_lab.bench.paper.report import PaperReport, paper_report

__all__ = ["CenterRows", "PaperPlay", "PaperReport", "PaperStreams", "open_streams", "paper_report"]
