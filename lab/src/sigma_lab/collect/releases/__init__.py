"""The 18 datasets of the paper as they were released, and questions made of them.

A dataset is one small function from a record to a :class:`~sigma_lab.collect.releases.draft.Draft`, and a
:class:`~sigma_lab.collect.releases.draft.Release` that names its files. Adding one is these two.
"""

from sigma_lab.collect.releases import code, text
from sigma_lab.collect.releases.draft import Release

RELEASES: dict[str, Release] = {release.name: release for release in (*text.RELEASES, *code.RELEASES)}

__all__ = ["RELEASES", "Release"]
