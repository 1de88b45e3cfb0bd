"""A real language model as center: it judges the peers' answers, steered by the memory (extra ``[center]``).

``Center`` is what a user meets: a frozen causal LM that returns the utility U_p of every answer, given
the memory's readouts M_pφ. ``open_checkpoint`` brings one together with a trained steering. Weights come
from ``load``; ``blocks`` finds the decoder and shifts the inputs of its blocks, and
``project`` makes the shift from a readout. ``split`` runs the model in two halves; ``lower_half`` keeps
what the lower one computed. ``prompt`` writes the question and reads the verdict, and ``phi`` encodes
questions with the center's own hidden states.
"""

from sigma_mem.extras import require

for _package in ("torch", "transformers", "safetensors"):
    require(_package, extra="center", purpose="the center model")

from sigma_mem.center.center import Center, JudgeResult  # noqa: E402
from sigma_mem.center.phi import CenterEncoder  # noqa: E402
from sigma_mem.center.project import Steering  # noqa: E402
from sigma_mem.center.prompt import JudgePrompt  # noqa: E402
from sigma_mem.center.state_cache import StateCache  # noqa: E402
from sigma_mem.center.trained import TrainedCenter, open_checkpoint  # noqa: E402

__all__ = [
    "Center",
    "CenterEncoder",
    "JudgePrompt",
    "JudgeResult",
    "StateCache",
    "Steering",
    "TrainedCenter",
    "open_checkpoint",
]
