"""Streams for the dashboard: recorded answers of real models where there are any, else drawn ones.

In both, one peer changes halfway under its name, and the very last event attacks the page.
"""

import gzip
import json
import random
from pathlib import Path

RECORDED = Path(__file__).parents[3] / "shared" / "data" / "mmlu-pro.jsonl.gz"
MODELS = (
    "Meta-Llama-3_1-8B-Instruct",
    "mathstral-7B",
    "Phi-3-mini-4k-instruct",
    "c4ai-command-r-v01",
    "Mixtral-8x7B-Instruct-v0.1",
    "Yi-34B",
)
BILLIONS = (8.0, 7.2, 3.8, 35.0, 46.7, 34.4)  # of parameters: what a call costs here
UPDATED, SUCCESSOR = MODELS[0], "Qwen1.5-7B-Chat"  # whose answers stand under that name after the update
EVENTS, UNLABELLED = 400, 6
ATTACK = "<img src=x onerror=\"document.body.dataset.attacked='yes'\"><script>alert(1)</script>"

DRAWN = ("gemma", "phi", "coder", "qwen")
SKILL = {
    "gemma": {"algebra": 0.85, "law": 0.6, "code": 0.5},
    "phi": {"algebra": 0.5, "law": 0.85, "code": 0.55},
    "coder": {"algebra": 0.55, "law": 0.3, "code": 0.95},
    "qwen": {"algebra": 0.95, "law": 0.95, "code": 0.9},  # until it is updated
}


def recorded():
    """Real answers to MMLU-Pro, in a drawn order: question, topic, answers and who was right."""
    with gzip.open(RECORDED, "rt", encoding="utf-8") as lines:
        events = [json.loads(line) for line in lines]
    random.Random(5).shuffle(events)
    for place, event in enumerate(events[:EVENTS]):
        who = {peer: peer for peer in MODELS}
        if place >= EVENTS // 2:
            who[UPDATED] = SUCCESSOR
        answers = {
            peer: {"text": event["answers"][model]["text"][-300:], "canon": event["answers"][model]["canon"]}
            for peer, model in who.items()
        }
        right = {peer: bool(event["correct"][model]) for peer, model in who.items()}
        yield event["question"], event["domain"], answers, right


def drawn():
    """Peers with strengths by topic; qwen is updated for the worse."""
    draw = random.Random(5)
    for place in range(EVENTS // 2):
        topic = ("algebra", "law", "code")[place % 3]
        skill = {peer: SKILL[peer][topic] for peer in DRAWN}
        if place >= EVENTS // 4:
            skill["qwen"] = 0.15
        right = {peer: draw.random() < skill[peer] for peer in DRAWN}
        answers = {peer: str(place) if right[peer] else str(place + draw.randint(1, 3)) for peer in DRAWN}
        yield f"{topic.title()}: what is the value of case {place}?", topic, answers, right


def feed(http, base="/v1/memory/default"):
    """Decide and label a stream through the API; the last events stay without a label."""
    events = list(recorded() if RECORDED.exists() else drawn())
    peers = MODELS if RECORDED.exists() else DRAWN
    http.put(base, json={"peers": peers}).raise_for_status()
    for peer, billions in zip(peers, BILLIONS, strict=False):
        price = {"peer": peer, "per_call": billions / 1e4, "latency": billions / 20}
        http.post(f"{base}/prices", json=price).raise_for_status()
    for place, (question, topic, answers, right) in enumerate(events):
        if place == len(events) - 1:
            question, answers = f"{ATTACK} {question}", {**answers, peers[1]: ATTACK}
        asked = {"question": question, "answers": answers, "topic": topic}
        made = http.post(f"{base}/vote", json=asked).raise_for_status().json()
        if place < len(events) - UNLABELLED:
            said = {"decision": made["id"], "labels": right}
            http.post(f"{base}/feedback", json=said).raise_for_status()
