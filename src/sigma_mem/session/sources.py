"""Who gave feedback, and what each of them is worth now."""

from collections.abc import Mapping
from dataclasses import dataclass

from sigma_mem.ledger.fold import Fold


@dataclass(frozen=True, slots=True)
class Source:
    """Someone who gives labels.

    Attributes
    ----------
    name : str
    lines : int
        How often it gave feedback.
    trusted, revoked : bool
    agreement : float, optional
        Correlation, from 0 to 1, with trusted sources on labels that both gave; with the other sources where
        no trusted one spoke beside it; None where there is nothing to compare.
    compared : float
        Labels behind that, as far as they are not forgotten.
    weight : float
        What it weighs now, from 0 to 1: on an event of its own where trusted sources are named, and beside
        the most reliable of the others where not.
    """

    name: str
    lines: int
    trusted: bool
    revoked: bool
    agreement: float | None
    compared: float
    weight: float


def list_sources(fold: Fold, lines: Mapping[str, int]) -> list[Source]:
    """Sources by name, given how many lines each has in the ledger."""
    names = sorted({*lines, *fold.revoked, *fold.sources.trusted})
    weights = fold.sources.weights([name for name in names if name not in fold.revoked], fold.state)
    out = []
    for name in names:
        agreement, n = fold.sources.agreement(name, fold.state.now)
        out.append(
            Source(
                name,
                lines.get(name, 0),
                fold.sources.is_trusted(name),
                name in fold.revoked,
                agreement if n else None,
                n,
                weights.get(name, 0.0),
            )
        )
    return out
