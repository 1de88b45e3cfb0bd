"""What the paper proves, for any stream: symmetry, Weyl's bound per event, and the norm's bound."""

import numpy as np
from hypothesis import given

from memory.strategies import decays, play, streams


def excess(before, after, gamma, norm):
    """max_i |λᵢ(after) − γλᵢ(before)| − norm, not above 0 by Weyl's inequality."""
    moved = np.linalg.eigvalsh(after) - gamma * np.linalg.eigvalsh(before)
    return float(np.abs(moved).max() - norm)


def off_diagonal(matrix):
    return matrix - np.diag(np.diag(matrix))


@given(stream=streams(decay=decays()))
def test_M_and_N_equal_their_transpose_exactly(stream):
    state, _ = play(stream)
    for stack in (state.M, state.N):
        assert stack.tobytes() == np.ascontiguousarray(stack.transpose(0, 2, 1)).tobytes()


@given(stream=streams(decay=decays()))
def test_G_is_symmetric_exactly_with_unit_diagonal(stream):
    state, _ = play(stream)
    G = state.G
    assert G.tobytes() == np.ascontiguousarray(G.T).tobytes()
    assert (np.diag(G) == 1.0).all()


@given(stream=streams(max_events=80))
def test_no_event_moves_an_eigenvalue_by_more_than_eta(stream):
    """|λᵢ(M′) − γλᵢ(M)| ≤ η (prop:single-step-weyl)."""
    state, settings = stream.state(), stream.settings
    before, scale = state.M, 1.0
    for phi, c in zip(stream.phis, stream.c, strict=True):
        state.write(phi, c, state.begin_event())
        after = state.M
        for old, new in zip(before, after, strict=True):
            assert excess(old, new, settings.gamma, settings.step) <= 1e-12 * scale
        before, scale = after, max(1.0, float(np.abs(after).max()))


@given(stream=streams(max_events=80, min_peers=2))
def test_weyl_holds_for_G_off_the_reset_diagonal(stream):
    """|λᵢ(G′₀) − γ_G λᵢ(G₀)| ≤ ‖E‖₂, and E is η_G qqᵀ off the diagonal."""
    state, settings = stream.state(), stream.settings
    before = state.G
    for phi, c in zip(stream.phis, stream.c, strict=True):
        state.write(phi, c, state.begin_event())
        after = state.G
        old, new = off_diagonal(before), off_diagonal(after)
        norm = float(np.linalg.norm(new - settings.gamma_g * old, 2))
        assert excess(old, new, settings.gamma_g, norm) <= 1e-12
        seen = ~np.isnan(c)
        update = after - settings.gamma_g * before
        np.fill_diagonal(update, 0.0)
        q = np.where(seen, c - c[seen].mean(), 0.0) if seen.sum() > 1 else np.zeros(len(c))
        wanted = settings.eta_g * np.outer(q, q)
        np.fill_diagonal(wanted, 0.0)
        np.testing.assert_allclose(update, wanted, atol=1e-12)
        before = after


@given(stream=streams(decay=decays()))
def test_the_norm_of_M_is_bounded(stream):
    """‖M‖₂ ≤ η/(1 − γ) with decay by event, and ≤ η times the decayed number of labels with any decay."""
    state, _ = play(stream)
    settings = stream.settings
    norms = np.abs(np.linalg.eigvalsh(state.M)).max(axis=1)
    _, labels = state.overall()
    assert (norms <= settings.step * labels * (1.0 + 1e-9) + 1e-12).all()
    if settings.decay != "time" and settings.gamma < 1.0:
        assert (norms <= settings.step / (1.0 - settings.gamma) * (1.0 + 1e-9)).all()


@given(stream=streams(decay=decays()))
def test_N_is_positive_semidefinite_and_dominates_M(stream):
    state, _ = play(stream)
    M, N = state.M, state.N
    for matrix in (N, N - M, N + M):
        assert (np.linalg.eigvalsh(matrix)[:, 0] >= -1e-9).all()
