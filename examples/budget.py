"""Spend a budget where it helps: two models with prices, labels for the served one only."""

import random

from sigma_mem import Budget, SigmaMem

RIGHT = {  # how often each model is right, by kind of task; the caller cannot know this
    "small": {"chat": 0.95, "proof": 0.30},
    "large": {"chat": 0.96, "proof": 0.90},
}
COST = {"small": 0.001, "large": 0.010}
TASKS = {
    "chat": "Write a friendly reply to a customer who asks where the parcel is.",
    "proof": "Prove that the sum of two odd integers is even, step by step.",
}


def main(events: int = 600, budget: float = 2.5) -> SigmaMem:
    """Serve tasks under a budget; return the memory."""
    draw = random.Random(0)
    mem = SigmaMem(peers=["small", "large"], seed=0)
    for peer, cost in COST.items():
        mem.set_price(peer, per_call=cost)
    right, large = 0, {"chat": 0, "proof": 0}
    for i in range(events):
        kind = draw.choice(["chat", "chat", "proof"])
        d = mem.route(TASKS[kind], explore=True, budget=Budget(budget, events=events), ref=f"request-{i}")
        answered = draw.random() < RIGHT[d.peer][kind]
        mem.served(f"request-{i}", cost=COST[d.peer])  # by the name that the caller knows
        mem.feedback(f"request-{i}", {d.peer: answered})
        right += answered
        large[kind] += d.peer == "large"
    spent = mem.spent()
    print(f"{right / events:.0%} right for {spent.total:.2f} of {budget:.2f}: {dict(spent.by_peer)}")
    print(f"the large model answered {large['proof']} proofs and {large['chat']} chats")
    return mem


if __name__ == "__main__":
    main()
