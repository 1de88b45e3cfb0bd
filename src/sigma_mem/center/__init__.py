"""A real language model as center: it is steered by the memory and judges the peers' answers.

Everything here needs the extra ``[center]``. ``Center`` is the one object a user meets: a frozen
causal LM that, given a question, the peers' answers and their memory readouts M_pφ, returns the utility
U_p of each. Its parts stand beside it, one idea a file: ``load`` and ``pull`` find weights, ``blocks``
finds the decoder's blocks, ``steer`` shifts their inputs, ``project`` turns a readout into a shift, ``split``
runs the model in two halves, ``prefix`` shares the question between peers, ``cache`` keeps the lower half on
disk, ``rows`` joins these, ``prompt`` and ``judge`` ask and read the verdict, ``encoder`` makes φ from the
center's own hidden states.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sigma_mem.center.extra import require_center

require_center()

if TYPE_CHECKING:
    from sigma_mem.center.cache import StateCache
    from sigma_mem.center.center import Center, JudgeResult
    from sigma_mem.center.encoder import CenterEncoder
    from sigma_mem.center.project import Steering
    from sigma_mem.center.prompt import JudgePrompt

__all__ = ["Center", "CenterEncoder", "JudgePrompt", "JudgeResult", "StateCache", "Steering"]

_WHERE = {
    "Center": "center",
    "CenterEncoder": "encoder",
    "JudgePrompt": "prompt",
    "JudgeResult": "center",
    "StateCache": "cache",
    "Steering": "project",
}


def __getattr__(name: str) -> Any:
    # torch takes seconds to import, and `sigma-mem center pull` often has nothing to do.
    if name in _WHERE:
        return getattr(import_module(f"sigma_mem.center.{_WHERE[name]}"), name)
    raise AttributeError(f"module 'sigma_mem.center' has no attribute {name!r}")
