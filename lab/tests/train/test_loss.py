import torch

from sigma_lab.train.objective import best_slope, listwise, margin, pointwise


def test_listwise_is_the_mass_on_right_peers() -> None:
    utility = torch.tensor([[1.0, 2.0, 0.5], [0.0, 0.0, 0.0]])
    right = torch.tensor([[True, False, True], [False, True, False]])
    share = utility.softmax(dim=1)
    want = torch.stack([-(share[0, 0] + share[0, 2]).log(), -share[1, 1].log()])
    torch.testing.assert_close(listwise(utility, right), want)


def test_uncontested_events_have_neither_loss_nor_gradient() -> None:
    utility = torch.randn(2, 3, requires_grad=True)
    right = torch.tensor([[True, True, True], [False, False, False]])
    loss = listwise(utility, right)
    loss.sum().backward()  # type: ignore[no-untyped-call]
    assert loss.tolist() == [0.0, 0.0]
    assert utility.grad is not None
    assert utility.grad.abs().max() < 1e-6


def test_listwise_does_not_move_with_the_overall_leaning() -> None:
    utility, right = torch.randn(4, 3), torch.tensor([[True, False, False]] * 4)
    torch.testing.assert_close(listwise(utility, right), listwise(utility + 5.0, right))
    torch.testing.assert_close(pointwise(utility, right), pointwise(utility + 5.0, right))


def test_pointwise_prefers_right_over_wrong() -> None:
    right = torch.tensor([[True, False]])
    assert pointwise(torch.tensor([[1.0, -1.0]]), right) < pointwise(torch.tensor([[-1.0, 1.0]]), right)


def test_margin_is_zero_once_wide_enough() -> None:
    kept, other = torch.tensor([0.5, 0.5]), torch.tensor([0.7, 0.55])
    torch.testing.assert_close(margin(kept, other, 0.1), torch.tensor([0.0, 0.05]))


def test_the_best_slope_is_the_one_that_made_the_labels() -> None:
    rng = torch.Generator().manual_seed(0)
    utility = torch.randn(20000, 2, generator=rng)
    first = torch.rand(20000, generator=rng) < torch.sigmoid(1.7 * (utility[:, 0] - utility[:, 1]))
    right = torch.stack([first, ~first], dim=1)
    slope, loss = best_slope([(utility[:9000], right[:9000]), (utility[9000:], right[9000:])])
    assert abs(slope - 1.7) < 0.05
    assert abs(loss - float(listwise(slope * utility, right).mean())) < 1e-5
    assert loss < float(listwise(0.8 * slope * utility, right).mean())
