"""Learning φ: the parallel form is the memory, and what is learned helps on events and peers not seen."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra [center] is not installed")

from sigma_lab.bench.league import memory_choices  # noqa: E402
from sigma_lab.train.phi import (  # noqa: E402
    PhiSettings,
    parallel_prob,
    save_phi,
    train_phi,
)
from sigma_mem.center.checkpoint import save_checkpoint  # noqa: E402
from sigma_mem.center.threads import torch_threads  # noqa: E402
from sigma_mem.encode.base import unit  # noqa: E402
from sigma_mem.encode.hashed import HashedEncoder  # noqa: E402
from sigma_mem.encode.learned import KINDS, LearnedEncoder  # noqa: E402
from sigma_mem.errors import EncoderMismatchError, InputError  # noqa: E402
from sigma_mem.events import Answer, Event, FloatArray  # noqa: E402
from sigma_mem.memory import Settings, SigmaState  # noqa: E402
from sigma_mem.streams import Stream, load_stream  # noqa: E402

DATA = Path(__file__).parents[4] / "shared" / "data"
QUICK = PhiSettings(steps=60, chunk=256, components=24)
TOPICS = (
    ["integral", "matrix", "theorem", "polynomial"],
    ["court", "contract", "plaintiff", "statute"],
    ["enzyme", "protein", "membrane", "genome"],
    ["inflation", "tariff", "market", "demand"],
)


def topical(n: int, n_peers: int, seed: int) -> Stream:
    """Questions of four topics in mixed words; every peer knows two of the topics."""
    rng = np.random.default_rng(seed)
    knows = np.array([[(p + t) % 4 < 2 for t in range(4)] for p in range(n_peers)])
    filler = [f"word{i}" for i in range(60)]
    events = []
    for i in range(n):
        topic = int(rng.integers(4))
        words = [*rng.choice(TOPICS[topic], 2), *rng.choice(filler, 6)]
        right = rng.random(n_peers) < np.where(knows[:, topic], 0.85, 0.3)
        events.append(
            Event(
                id=f"q{i}",
                question=" ".join(rng.permutation(words)),
                answers={f"p{p}": Answer("a", "a") for p in range(n_peers)},
                correct={f"p{p}": 1.0 if r else -1.0 for p, r in enumerate(right)},
                domain=f"topic{topic}",
            )
        )
    return Stream("topical", tuple(f"p{p}" for p in range(n_peers)), tuple(events))


def routed(phis: FloatArray, stream: Stream, skip: int) -> float:
    labels = stream.labels()
    chosen = memory_choices(stream, phis)["calibrated-route"]
    return float((labels[np.arange(len(labels)), chosen] > 0)[skip:].mean())


def test_the_parallel_form_is_what_the_memory_says() -> None:
    rng = np.random.default_rng(0)
    phis = unit(rng.random((90, 6)))
    labels = rng.choice([-1.0, 1.0, np.nan], size=(90, 3))
    right = torch.tensor(np.where(np.isnan(labels), np.nan, labels > 0))
    mine = parallel_prob(torch.tensor(phis), right, 0.97, 5.0).numpy()
    # The same p̂, event by event, with the overall rate shrunk to one half.
    for t in (0, 1, 40, 89):
        for p in range(3):
            age = 0.97 ** np.arange(t - 1, -1, -1)
            known = ~np.isnan(labels[:t, p])
            hits = age * known * (labels[:t, p] > 0)
            seen = age * known
            near = np.square(phis[:t] @ phis[t])
            overall = (hits.sum() + 2.5) / (seen.sum() + 5.0)
            assert mine[t, p] == pytest.approx((hits @ near + 5 * overall) / (seen @ near + 5.0), abs=1e-12)
    # And the shipped memory's: the same evidence behind it.
    state, score, effective = SigmaState(("a", "b", "c"), 6, Settings(gamma=0.97)), [], []
    for phi, c in zip(phis, labels, strict=True):
        reading = state.read(phi)
        score.append(reading.score)
        effective.append(reading.effective)
        state.write(phi, c, state.begin_event())
    hits = 0.5 * (np.array(score) / Settings(gamma=0.97).step + effective)
    age = np.tril(0.97 ** np.clip(np.arange(90)[:, None] - 1 - np.arange(90), 0, None), -1)
    overall = (age @ (labels > 0) + 2.5) / (age @ ~np.isnan(labels) + 5.0)
    assert mine == pytest.approx((hits + 5 * overall) / (np.array(effective) + 5.0), abs=1e-9)


def test_gradients_reach_the_past_too() -> None:
    phi = torch.tensor(unit(np.random.default_rng(1).random((20, 4))), requires_grad=True)
    right = torch.ones((20, 2), dtype=torch.float64)
    parallel_prob(phi, right, 0.99, 5.0)[-1].sum().backward()
    assert float(phi.grad[:-1].abs().sum()) > 0


def test_it_helps_on_events_and_on_peers_it_never_saw() -> None:
    base = HashedEncoder(rank=32)
    learned = train_phi(topical(600, 5, seed=0), base, QUICK).encoder
    fresh = topical(700, 3, seed=1)
    others = Stream("topical", ("n0", "n1", "n2"), tuple(_renamed(event) for event in fresh))
    questions = [event.question for event in others]
    before = routed(base.encode(questions), others, 100)
    after = routed(learned.encode(questions), others, 100)
    assert after > before + 0.03


def _renamed(event: Event) -> Event:
    answers = {f"n{p[1:]}": a for p, a in event.answers.items()}
    correct = {f"n{p[1:]}": c for p, c in event.correct.items()}
    return Event(event.id, event.question, answers, correct, event.domain)


def test_a_saved_phi_is_read_back_bit_for_bit(tmp_path: Path) -> None:
    base = HashedEncoder(rank=16)
    learned = train_phi(topical(100, 3, seed=2), base, PhiSettings(steps=3, chunk=64, components=8))
    save_phi(learned, tmp_path / "phi.safetensors")
    again = LearnedEncoder.load(tmp_path / "phi.safetensors", base)
    texts = ["integral of a matrix", "the court and the contract", ""]
    assert np.array_equal(again.encode(texts), learned.encoder.encode(texts))
    assert (again.name, again.version, again.rank) == (
        learned.encoder.name,
        learned.encoder.version,
        16 + 4,  # the base's prototypes, and four topics
    )
    assert np.linalg.norm(again.encode(texts), axis=1) == pytest.approx(np.ones(3))
    assert learned.about["stream_sha256"] == topical(100, 3, seed=2).sha256


def test_a_stream_without_domains_is_learned_from_too() -> None:
    plain = topical(100, 3, seed=2)
    events = tuple(Event(e.id, e.question, e.answers, e.correct, "all") for e in plain)
    settings = PhiSettings(steps=3, chunk=64, components=8)
    learned = train_phi(Stream("plain", plain.peers, events), HashedEncoder(rank=16), settings)
    assert learned.encoder.rank == 16
    assert not set(KINDS) & set(learned.arrays)
    assert learned.encoder.encode(["integral"]).shape == (1, 16)
    with pytest.raises(InputError, match="idf"):
        LearnedEncoder(HashedEncoder(rank=16), {**learned.arrays, "words": np.zeros(3)})


def test_what_is_saved_is_what_was_learned() -> None:
    """φ of the encoder, with V folded in, against the model that was trained."""
    stream, base = topical(100, 3, seed=9), HashedEncoder(rank=16)
    learned = train_phi(stream, base, PhiSettings(steps=3, chunk=64, components=8, share=0.8))
    phis = learned.encoder.encode([event.question for event in stream])
    assert phis.min() >= 0
    assert np.square(phis[:, :4]).sum(axis=1) == pytest.approx(np.full(100, 0.8))
    told = phis[:, :4].argmax(axis=1)
    topics = [int(event.domain[-1]) for event in stream]
    assert (told == topics).mean() > 0.95


def test_training_is_seeded() -> None:
    stream, base = topical(100, 3, seed=3), HashedEncoder(rank=16)
    settings = PhiSettings(steps=3, chunk=64, components=8, seed=7)
    first = train_phi(stream, base, settings)
    with torch_threads(2):
        second = train_phi(stream, base, settings)
    assert first.encoder.version == second.encoder.version  # a hash of all its bits
    other = train_phi(stream, base, PhiSettings(steps=3, chunk=64, components=8, seed=8))
    assert other.encoder.version != first.encoder.version


def test_without_learning_it_is_the_base_phi() -> None:
    rng = np.random.default_rng(4)
    base = Fixed(unit(rng.random((5, 6)) + 0.01))
    arrays = {
        "mean": np.zeros(6),
        "whiten": np.eye(6),
        "W": np.zeros((6, 6)),
        "bias": np.zeros(6),
        "scale": np.ones(1),
    }
    same = LearnedEncoder(base, arrays).encode([""] * 5)
    assert same == pytest.approx(base.phis, abs=1e-12)


class Fixed:
    """An encoder that returns given φ."""

    name, version, rank = "fixed", "1", 6

    def __init__(self, phis: FloatArray) -> None:
        self.phis = phis

    def encode(self, texts: Sequence[str]) -> FloatArray:
        return self.phis[: len(texts)]


def test_wrong_files_and_bases_are_refused(tmp_path: Path) -> None:
    base = HashedEncoder(rank=16)
    with pytest.raises(InputError, match="no learned φ"):
        LearnedEncoder.load(tmp_path / "absent", base)
    (tmp_path / "junk").write_bytes(b"\xff" * 64)
    with pytest.raises(InputError, match="not a learned φ"):
        LearnedEncoder.load(tmp_path / "junk", base)
    save_checkpoint(tmp_path / "other", "steering", {"W": np.zeros(2)}, {})
    with pytest.raises(InputError, match="kind 'steering'"):
        LearnedEncoder.load(tmp_path / "other", base)
    learned = train_phi(topical(100, 3, seed=6), base, PhiSettings(steps=1, chunk=64, components=4))
    save_phi(learned, tmp_path / "phi")

    class Newer(HashedEncoder):
        version = "2"

    with pytest.raises(EncoderMismatchError, match="train anew"):
        LearnedEncoder.load(tmp_path / "phi", Newer(rank=16))
    with pytest.raises(InputError, match="share is 1"):
        PhiSettings(share=1.0)
    with pytest.raises(InputError, match="64 and 2"):
        train_phi(topical(10, 3, seed=6), base)


@pytest.mark.endurance
def test_it_lifts_routes_on_the_second_half_of_a_real_stream() -> None:
    if not (DATA / "mmlu-pro.jsonl.gz").is_file():
        pytest.skip(f"no recorded streams at {DATA}; they are not part of the package")
    from sigma_mem.encode.static import StaticEncoder

    pool = ("mathstral-7B", "Phi-3-mini-4k-instruct", "c4ai-command-r-v01")
    whole = load_stream(DATA / "mmlu-pro.jsonl.gz").select(seed=0)
    half = len(whole) // 2
    seen = [p for p in whole.peers if p not in pool]
    base = StaticEncoder()
    # Learned from the first half and the other five peers only.
    learned = train_phi(whole.select(peers=seen, limit=half), base, PhiSettings(steps=80))
    test = whole.select(peers=pool)
    questions = [event.question for event in test]
    before = routed(base.encode(questions), test, half)
    after = routed(learned.encoder.encode(questions), test, half)
    assert after > before + 0.003
