"""pydantic-ai: a selector for `SelectModel`, and a sink for online evaluations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sigma_mem.extras import require
from sigma_mem.integrations.chooser import Chooser, Memory
from sigma_mem.scores import Metric, Score, record


class SigmaModels:
    """Selects the model of a run; if its call fails, the next best one answers.

    ``Agent(capabilities=[SelectModel(SigmaModels(memory, {"small": …, "large": …}))])``. The event is named
    by the run's id: ``models.feedback(result.run_id, True)``. `models` maps peers to models, or their names;
    the options are those of `Chooser`.
    """

    def __init__(self, memory: Memory, models: Mapping[str, Any], **options: Any) -> None:
        self.chooser, self.models = Chooser(memory, **options), models
        self.feedback = self.chooser.feedback
        needed = {"extra": "pydantic-ai", "purpose": "the selector for pydantic-ai"}
        self._fallback = require("pydantic_ai.models.fallback", **needed)
        self._failures = (OSError, require("pydantic_ai.exceptions", **needed).ModelAPIError)

    async def __call__(self, context: Any) -> Any:
        """The model to call, and the others behind it; the same for all requests of a run."""
        chooser, prompt = self.chooser, context.prompt
        if not isinstance(prompt, str):
            prompt = "\n".join(part for part in prompt or () if isinstance(part, str))
        choice = await chooser.later(chooser.choose, prompt, self.models, ref=context.run_id)

        async def goes_on_after(error: Exception) -> bool:
            nonlocal choice
            failed = isinstance(error, self._failures)
            following = await chooser.later(chooser.pass_over, choice) if failed else None
            choice = following or choice
            return following is not None

        order = [self.models[peer] for peer in (choice.peer, *choice.others)]
        return self._fallback.FallbackModel(*order, fallback_on=goes_on_after)


class SigmaSink:
    """An `EvaluationSink` of `pydantic_evals.online`: results of evaluators become feedback on their run.

    `metrics` says by the name of an evaluation how it counts.
    """

    def __init__(self, memory: Memory, metrics: Mapping[str, Metric]) -> None:
        self.chooser, self.metrics = Chooser(memory), metrics

    async def submit(self, payload: Any) -> None:
        """Take the results of a run, whose id is the name of the evaluated case."""
        run = payload.context.name
        scores = [Score(run, None, each.name, each.value, f"{run}/{each.name}") for each in payload.results]
        await self.chooser.later(record, self.chooser.memory, scores, self.metrics)
