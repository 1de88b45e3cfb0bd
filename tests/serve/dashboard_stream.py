"""A stream for the dashboard's browser tests: peers with strengths, one that changes, one that attacks."""

import random

PEERS = ("gemma", "phi", "coder", "qwen")
TOPICS = ("algebra", "law", "code")
SKILL = {
    "gemma": {"algebra": 0.85, "law": 0.6, "code": 0.5},
    "phi": {"algebra": 0.5, "law": 0.85, "code": 0.55},
    "coder": {"algebra": 0.55, "law": 0.3, "code": 0.95},
    "qwen": {"algebra": 0.95, "law": 0.95, "code": 0.9},  # until it is updated
}
ATTACK = "<img src=x onerror=\"document.body.dataset.attacked='yes'\"><script>alert(1)</script>"


def feed(http, events=200, unlabelled=6, base="/v1/memory/default"):
    """Decide and label so many events; the last ones stay without a label, the very last attacks the page."""
    draw = random.Random(5)
    assert http.put(base, json={"peers": PEERS, "encoder": "hashed"}).is_success
    for i, peer in enumerate(PEERS):
        assert http.post(
            f"{base}/prices", json={"peer": peer, "per_call": 0.001 * (i + 1), "latency": 0.4}
        ).is_success
    for i in range(events):
        topic = TOPICS[i % 3]
        right = {peer: draw.random() < skill_at(peer, topic, i) for peer in PEERS}
        answers = {peer: str(i) if right[peer] else str(i + draw.randint(1, 3)) for peer in PEERS}
        question = f"{topic.title()}: what is the value of case {i}?"
        if i == events - 1:
            question, answers["gemma"] = f"{ATTACK} {question}", ATTACK
        asked = {"question": question, "answers": answers, "topic": topic}
        made = http.post(f"{base}/vote", json=asked).raise_for_status().json()
        if i < events - unlabelled:
            said = {"decision": made["id"], "labels": right}
            http.post(f"{base}/feedback", json=said).raise_for_status()


def skill_at(peer, topic, event):
    """Qwen is updated after 120 events, for the worse."""
    return 0.15 if peer == "qwen" and event >= 120 else SKILL[peer][topic]
