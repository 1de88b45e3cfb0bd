"""A checkpoint of a few steps for a tiny random center, written to disk with its model."""

from pathlib import Path

from sigma_lab.train import SteeringSettings, train_steering
from sigma_lab.train.data import EpisodeSettings
from sigma_lab.train.phi import Stage1Settings
from sigma_lab.train.run import RunSettings
from sigma_mem.center.center import Center
from sigma_mem.center.trained import open_features
from sigma_mem.streams import Stream
from train.tiny import saved_center


def tiny_checkpoint(stream: Stream, folder: Path) -> Path:
    """Train on the stream; the model is in ``folder / "model"``."""
    made = saved_center(folder / "model")
    center = Center.load(str(folder / "model"), prompt=made.writer.prompt, cache=folder / "cache")
    source = open_features("center", center)
    run = RunSettings(steps=4, margin_steps=1, rows=6, check_every=4, check_rows=12)
    learned = train_steering(
        stream,
        source.features([event.question for event in stream]),
        center,
        encoder=source.name,
        settings=SteeringSettings(
            judged=20,
            gamma=0.97,
            cap=0.5,
            episodes=EpisodeSettings(length=40, max_peers=3),
            phi=Stage1Settings(steps=0),
            run=run,
        ),
    )
    learned.steering.save(folder / "s.safetensors")
    return folder / "s.safetensors"
