"""The center: one frozen language model that judges the peers' answers, steered by the memory."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from sigma_mem.center.batches import by_length, pad_ids
from sigma_mem.center.blocks import block_input, block_range, find_decoder, steered
from sigma_mem.center.load import DEFAULT, fingerprint, load_model
from sigma_mem.center.lower_half import LowerHalf, PromptStates
from sigma_mem.center.project import Steering
from sigma_mem.center.prompt import JudgePrompt, PromptWriter, YesNoHead, text_config
from sigma_mem.center.split import Split, at_ends
from sigma_mem.center.state_cache import StateCache
from sigma_mem.errors import InputError
from sigma_mem.events import FloatArray

Pairs = Sequence[tuple[str, str] | tuple[str, str, str]]  # question, answer and, if it matters, the peer

_SAMPLE = (
    "Which planet of the solar system has the most mass, and how many moons of it are known?",
    "Jupiter.",
    "Sol",
)


@dataclass(frozen=True, slots=True)
class JudgeResult:
    """Verdicts on answers, in the order they were given: two (n,) float64 arrays.

    ``utility`` is U_p, Yes-minus-No log-odds of "should this answer be trusted?" (eq:sigma_peer_utility).
    ``yes_no_mass`` is the probability that the next token is Yes or No at all; small mass, weak verdict.
    """

    utility: FloatArray
    yes_no_mass: FloatArray


class Center:
    """A frozen causal LM as judge.

    Use ``judge`` from a session: numpy in, numpy out. Training uses ``rows`` (lower half, once per question
    and answer, no gradient) and ``upper`` (with a gradient from U to δ)::

        rows = center.rows([(question, answer), ...])          # cached lower half
        utility, _ = center.upper(rows, steering(readouts))    # (n,) tensor, backward() reaches the steering

    Parameters
    ----------
    model, tokenizer
        Already loaded; ``Center.load`` does it by name.
    steering
        Learned P and g; None judges without memory, as does any readout of zeros, bit for bit.
    first, last
        Steered blocks, by default ⌊L/2⌋ and L−1.
    scope
        ``"all"`` tokens are shifted, as in the paper, or only the ``"last"``.
    cache
        Folder or StateCache for lower-half states; None keeps none.
    max_tokens
        Tokens in one pass, padding included; 2048 on a CPU, on which more gains nothing.
    fast
        False never splits the model: the plain forward, for comparison.
    """

    def __init__(
        self,
        model: nn.Module,
        tokenizer: Any,
        *,
        name: str = "",
        steering: Steering | str | Path | None = None,
        prompt: JudgePrompt | None = None,
        first: int | None = None,
        last: int | None = None,
        scope: Literal["all", "last"] = "all",
        cache: StateCache | str | Path | None = None,
        max_tokens: int | None = None,
        blocks_path: str | None = None,
        fast: bool = True,
    ) -> None:
        if scope not in ("all", "last"):
            raise InputError(f"scope is {scope!r}; expected 'all' or 'last'")
        self.model, self.name, self.scope = model, name or type(model).__name__, scope
        self.decoder = find_decoder(model, blocks_path)
        steered_blocks = block_range(len(self.decoder.blocks), first, last)
        self.first, self.last = steered_blocks[0], steered_blocks[-1]
        limit = getattr(text_config(model), "max_position_embeddings", None)
        self.writer = PromptWriter(tokenizer, prompt, limit=limit)
        self.verdict = YesNoHead.of(model, self.writer)
        self.fingerprint = fingerprint(model)
        self.split = Split(self.decoder, self.first, probe=fast)
        self.hidden = self.split.width  # d, the width of the residual stream
        self.device = model.get_input_embeddings().weight.device  # type: ignore[operator]
        on_cpu = torch.device(self.device).type == "cpu"
        self.max_tokens, self._slack = max_tokens or (2048 if on_cpu else 32768), 0.05 if on_cpu else 0.5
        self.fast = fast and self.split.works and self._reads_like_the_model()
        self._lower = LowerHalf(
            self.split,
            self.device,
            model=self.fingerprint,
            opening=self.writer.encode(self.writer.opening),
            max_tokens=0 if on_cpu else self.max_tokens,
            cache=StateCache(cache) if isinstance(cache, str | Path) else cache,
        )
        # Whether the lower half runs a question once for all its answers.
        self.shares_prefix = self.fast and self._lower.shares
        self._lock = threading.RLock()
        sample = pad_ids([self.writer.row(*_SAMPLE).ids], self.device)
        states = block_input(self.decoder, self.first, sample)[0]
        # Token 0 is an attention sink a hundred times longer than the rest.
        self.h_median = float(torch.linalg.vector_norm(states[1:].float(), dim=-1).median())
        self.steering: Steering | None = None
        self.use(steering)

    @classmethod
    def load(
        cls,
        name: str = DEFAULT,
        *,
        dtype: str | torch.dtype = "auto",
        device: str | torch.device | None = None,
        device_map: str | dict[str, Any] | None = None,
        trust_remote_code: bool = False,
        **settings: Any,
    ) -> Center:
        """Load a model by hub name, folder or ``"smollm2"``; ``settings`` are those of ``Center`` itself."""
        model, tokenizer = load_model(
            name, dtype=dtype, device=device, device_map=device_map, trust_remote_code=trust_remote_code
        )
        return cls(model, tokenizer, name=name, **settings)

    def use(self, steering: Steering | str | Path | None) -> None:
        """Judge with this steering (or checkpoint) from now on; None is the base judge."""
        if isinstance(steering, str | Path):
            steering = Steering.load(steering)
        if steering is not None:
            prompt = self.writer.prompt.version
            steering.check(hidden=self.hidden, fingerprint=self.fingerprint, prompt=prompt, model=self.name)
        self.steering = steering

    @property
    def names_peer(self) -> bool:
        """Whether the judging prompt names the peer that answered."""
        return self.writer.prompt.names_peer

    def judge(
        self,
        question: str,
        answers: Sequence[str],
        readouts: ArrayLike | None = None,
        peers: Sequence[str] | None = None,
    ) -> JudgeResult:
        """Judge the answers to one question.

        Readouts (n, rank) are M_pφ of the peer behind each answer; without them it judges without memory.
        ``peers`` are their names, for a prompt that names them.
        """
        if peers is None:
            return self.judge_pairs([(question, answer) for answer in answers], readouts)
        named = zip(answers, peers, strict=True)
        return self.judge_pairs([(question, answer, peer) for answer, peer in named], readouts)

    def judge_pairs(self, pairs: Pairs, readouts: ArrayLike | None = None) -> JudgeResult:
        """Judge (question, answer) pairs of any number of events at once, each with its own readout.

        A third text is the peer's name; only a prompt that names peers reads it.
        """
        return self.utilities(pairs, self.deltas(readouts, len(pairs)))

    @torch.no_grad()
    def utilities(self, pairs: Pairs, delta: Tensor | None) -> JudgeResult:
        """Judge pairs under shifts (n, d) that are given directly."""
        utility, mass = self.upper(self.rows(pairs), delta, mass=True)
        return JudgeResult(utility.double().cpu().numpy(), mass.double().cpu().numpy())

    def deltas(self, readouts: ArrayLike | None, n: int) -> Tensor | None:
        """(n, rank) readouts → (n, d) shifts by the steering in use; None for an empty memory."""
        if self.steering is None or readouts is None:
            return None
        values = np.asarray(readouts, dtype=np.float64)
        if values.shape != (n, self.steering.rank) or not np.isfinite(values).all():
            raise InputError(
                f"readouts have shape {values.shape}; expected ({n}, {self.steering.rank}) finite numbers, "
                "one row per answer and the rank that the steering was learned for"
            )
        if not values.any():
            return None  # the base judge, by the same computation and so to the last bit
        delta: Tensor = self.steering(torch.from_numpy(values))
        return delta

    def rows(self, pairs: Pairs) -> list[PromptStates]:
        """Prompts of (question, answer) pairs with their lower-half states, from the cache if known."""
        prompts = [self.writer.row(*pair) for pair in pairs]
        if not self.fast:
            return [PromptStates(prompt.ids, None) for prompt in prompts]
        with self._lock:
            return self._lower.rows(prompts)

    def upper(
        self, rows: Sequence[PromptStates], delta: Tensor | None = None, *, mass: bool = False
    ) -> tuple[Tensor, Tensor]:
        """Utility and yes+no mass, (n,) float32 each, by the upper half with one shift (n, d) a row.

        A gradient flows from U to ``delta``; None is the base judge. The mass needs the whole unembedding of
        one token a row, and is NaN if it was not requested.
        """
        if delta is not None and delta.shape != (len(rows), self.hidden):
            raise InputError(f"delta has shape {tuple(delta.shape)}; expected ({len(rows)}, {self.hidden})")
        if not rows:
            raise InputError("no answer to judge; expected at least one")
        batches = by_length([len(row) for row in rows], self.max_tokens, self._slack)
        with self._lock:
            found = [
                self._run([rows[i] for i in batch], None if delta is None else delta[batch], mass)
                for batch in batches
            ]
        back = torch.tensor([i for batch in batches for i in batch]).argsort()
        utility, masses = (torch.cat(parts) for parts in zip(*found, strict=True))
        return utility[back.to(utility.device)], masses[back.to(masses.device)]

    def forget(self) -> None:
        """Drop the question states that are kept in memory; the cache on disk stays."""
        with self._lock:
            self._lower.forget()

    def _run(self, rows: Sequence[PromptStates], delta: Tensor | None, mass: bool) -> tuple[Tensor, Tensor]:
        lengths = torch.tensor([len(row) for row in rows], device=self.device)
        only = lengths if self.scope == "last" else None
        with steered(self.decoder.blocks, delta, first=self.first, last=self.last, lengths=only):
            if not self.fast:
                ids = pad_ids([row.ids for row in rows], self.device)
                logits = self.model(input_ids=ids, use_cache=False).logits
                return self.verdict.from_logits(at_ends(logits, lengths).float())
            states = [row.states for row in rows if row.states is not None]
            last = at_ends(self.split.upper(pad_sequence(states, batch_first=True)), lengths)
        utility = self.verdict.utility(last)
        return utility, self.verdict.yes_no_mass(last) if mass else torch.full_like(utility, torch.nan)

    @torch.no_grad()
    def _reads_like_the_model(self) -> bool:
        """Whether Yes/No rows of the unembedding give the model's own logits."""
        ids = pad_ids([self.writer.row(*_SAMPLE).ids], self.device)
        logits = self.model(input_ids=ids, use_cache=False).logits[:, -1]
        want = self.verdict.from_logits(logits.float())
        last = self.split.whole(ids)[:, -1]
        got = self.verdict.utility(last), self.verdict.yes_no_mass(last)
        rounding = torch.finfo(logits.dtype).eps * float(logits.abs().max())  # of the model's own head
        tolerance = max(1e-3, 4.0 * rounding)
        return all(torch.allclose(a.cpu(), b.cpu(), atol=tolerance) for a, b in zip(got, want, strict=True))
