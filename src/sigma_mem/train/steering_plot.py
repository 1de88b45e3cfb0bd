"""The curve of a training run as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sigma_mem.errors import MissingExtraError
from sigma_mem.train.steering_run import Check

__all__ = ["plot_checks"]


def plot_checks(checks: Sequence[Check], path: str | Path) -> None:
    """Draw losses and held-out accuracy over steps, and the gain below them; stage 3 is shaded."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("the curve needs matplotlib; run: pip install 'sigma-mem[plot]'") from error
    end = max((c.step for c in checks if c.stage == 2), default=0)
    x = [c.step + (end if c.stage == 3 else 0) for c in checks]
    figure = Figure(figsize=(7, 6), layout="constrained")
    losses, gain = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
    losses.plot(x, [c.train_loss for c in checks], "o-", color="0.6", label="training loss")
    losses.plot(x, [c.held_loss for c in checks], "o-", color="C0", label="held-out loss")
    losses.set_ylabel("listwise loss (nats)")
    right = losses.twinx()
    right.plot(x, [100 * c.held_accuracy for c in checks], "s--", color="C1", label="held-out accuracy")
    right.set_ylabel("contested events answered right (%)")
    handles = [*losses.get_legend_handles_labels()[0], *right.get_legend_handles_labels()[0]]
    losses.legend(handles=handles, loc="upper right")
    gain.plot(x, [c.gain for c in checks], "o-", color="C2")
    gain.set_ylabel("gain g")
    gain.set_xlabel("step")
    if max(x, default=0) > end:
        for axes in (losses, gain):
            axes.axvspan(end, max(x), color="0.93", zorder=0)
    figure.savefig(Path(path), dpi=150)
