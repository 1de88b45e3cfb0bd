"""A judge behind an endpoint: a real server on loopback that answers, fails, is slow or talks nonsense."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from sigma_mem.errors import InputError
from sigma_mem.judges import EndpointJudge

Reply = Callable[[dict[str, Any]], tuple[int, bytes]]


class Server:
    """An endpoint whose replies are those of `reply`; `asked` has the bodies that it got."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.reply: Reply = said("Yes", yes=-0.1, no=-2.4)
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                server.asked.append(body)
                status, data = server.reply(body)
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/v1"
        self.thread = threading.Thread(target=self.http.serve_forever, daemon=True)
        self.thread.start()


def said(text: str, **likely: float) -> Reply:
    """A completion with this text and, if any are given, log-probabilities of Yes and No."""
    choice: dict[str, Any] = {"message": {"content": text}, "finish_reason": "stop"}
    if likely:
        listed = [{"token": name.capitalize(), "logprob": value} for name, value in likely.items()]
        choice["logprobs"] = {"content": [{"token": text, "top_logprobs": listed}]}
    usage = {"prompt_tokens": 1000, "completion_tokens": 1}
    return lambda body: (200, json.dumps({"choices": [choice], "usage": usage}).encode())


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.http.shutdown()
    made.http.server_close()


def judge(server: Server, **settings: Any) -> EndpointJudge:
    return EndpointJudge("gpt", server.url, "m", **{"timeout": 5.0, **settings})


def test_the_score_is_yes_minus_no(server: Server) -> None:
    verdict = judge(server).judge("What is 2 + 2?", {"ann": "4", "bob": "5", "cat": "4"})
    assert verdict.scores == pytest.approx({"ann": 2.3, "bob": 2.3, "cat": 2.3})
    assert not verdict.failures
    assert len(server.asked) == 2  # equal texts once
    message = server.asked[0]["messages"][1]["content"]
    assert "What is 2 + 2?" in message
    assert message.endswith("Should this answer be trusted, Yes or No?")


def test_the_same_question_and_answer_are_asked_once(server: Server) -> None:
    one = judge(server)
    first, again = one.judge("2 + 2?", {"ann": "4"}), one.judge("2 + 2?", {"bob": "4"})
    assert (again.scores["bob"], again.cost) == (first.scores["ann"], 0.0)
    assert len(server.asked) == 1


def test_without_log_probabilities_the_text_is_read(server: Server) -> None:
    server.reply = said("No, it is 5.")
    assert judge(server).judge("2 + 2?", {"ann": "4"}).scores == {"ann": -3.0}


@pytest.mark.parametrize("most", [0, 5])
def test_an_endpoint_that_refuses_log_probabilities_is_asked_for_fewer_or_none(
    server: Server, most: int
) -> None:
    def strict(body: dict[str, Any]) -> tuple[int, bytes]:
        if body.get("top_logprobs", 0) > most:
            return 400, b'{"error": {"message": "top_logprobs is not supported with this model"}}'
        return (said("Yes", yes=-0.1, no=-2.4) if most else said("Yes"))(body)

    server.reply = strict
    one = judge(server)
    assert one.judge("2 + 2?", {"ann": "4"}).scores == pytest.approx({"ann": 2.3 if most else 3.0})
    asked = len(server.asked)
    one.judge("2 + 3?", {"ann": "5"})
    assert len(server.asked) == asked + 1  # it is not tried again
    assert server.asked[-1].get("top_logprobs", 0) == most


def test_one_token_that_cannot_occur_does_not_spoil_the_scale(server: Server) -> None:
    server.reply = said("Yes", yes=0.0, no=-9999.0)
    assert judge(server).judge("2 + 2?", {"ann": "4"}).scores == {"ann": 20.0}


def test_a_number_is_read_if_the_template_asks_for_one(server: Server) -> None:
    server.reply = said("Score: 7.5 of 10")
    rates = judge(server, reads="number", template="Rate {answer} to {question} from 0 to 10.")
    assert rates.judge("2 + 2?", {"ann": "4"}).scores == {"ann": 7.5}
    assert "logprobs" not in server.asked[0]


@pytest.mark.parametrize(
    "reply",
    [
        said("As a language model I …"),
        said("The", the=-0.1),
        lambda body: (200, b"<html>"),
        lambda body: (200, b"[]"),
        lambda body: (200, b'{"choices": [{"message": null}]}'),
        lambda body: (500, b"{}"),
        lambda body: (401, b'{"error": {"message": "no key"}}'),
    ],
)
def test_nonsense_and_failures_give_no_score_and_no_exception(server: Server, reply: Reply) -> None:
    server.reply = reply
    verdict = judge(server).judge("2 + 2?", {"ann": "4"})
    assert verdict.scores == {}
    assert verdict.failures


def test_a_slow_endpoint_is_given_up_at_the_deadline(server: Server) -> None:
    def slow(body: dict[str, Any]) -> tuple[int, bytes]:
        time.sleep(1.0)
        return said("Yes")(body)

    server.reply = slow
    begun = time.monotonic()
    verdict = judge(server, timeout=0.2).judge("2 + 2?", {"ann": "4", "bob": "5"})
    assert verdict.scores == {}
    assert time.monotonic() - begun < 0.9
    # Beyond the deadline nothing is blamed on a rate that nobody set.
    late = judge(server, timeout=1e-9).judge("2 + 2?", {"ann": "4", "bob": "5"})
    assert late.failures == ("no reply within 1e-09 s",)


def test_the_memory_in_words(server: Server) -> None:
    one = judge(server, template="{question} {answer} {record}")
    records = {"ann": (0.74, 117.0), "bob": (0.2, 9.0)}
    one.judge("2 + 2?", {"ann": "4", "bob": "4", "cat": "4"}, records)
    asked = sorted(body["messages"][1]["content"] for body in server.asked)
    assert asked == [
        "2 + 2? 4 Nothing is known of the model that answered.",
        "2 + 2? 4 The model that answered was right in 20 % of about 9 similar tasks.",
        "2 + 2? 4 The model that answered was right in 74 % of about 120 similar tasks.",
    ]
    one.judge("2 + 2?", {"ann": "4"}, {"ann": (0.742, 118.0)})  # says the same
    assert len(server.asked) == 3


def test_an_endpoint_that_failed_rests(server: Server) -> None:
    server.reply = lambda body: (503, b"{}")
    one = judge(server)
    one.judge("2 + 2?", {"ann": "4"})
    assert one.judge("2 + 3?", {"ann": "5"}).failures == ("the endpoint rests",)
    assert len(server.asked) == 1


def test_the_budget_and_the_price(server: Server) -> None:
    one = judge(server, budget=0.001, price_in=1.0)  # 1,000 tokens cost 0.001
    assert one.judge("2 + 2?", {"ann": "4"}).cost == pytest.approx(0.001)
    assert one.price == pytest.approx(0.001)
    assert "budget" in one.judge("2 + 3?", {"ann": "5"}).failures[0]
    assert len(server.asked) == 1


def test_a_reply_that_cannot_be_read_has_been_paid_for(server: Server) -> None:
    server.reply = said("As a language model I …")
    verdict = judge(server, price_in=1.0).judge("2 + 2?", {"ann": "4"})
    assert (verdict.scores, verdict.cost) == ({}, pytest.approx(0.001))


def test_what_the_rate_forbids_is_not_asked(server: Server) -> None:
    one = judge(server, per_minute=6.0, timeout=1.0)
    verdict = one.judge("2 + 2?", {"ann": "4", "bob": "5"})
    assert list(verdict.scores) == ["ann"]
    assert verdict.failures == ("too many requests for its rate",)


@pytest.mark.parametrize(
    "wrong",
    [
        {"template": "no marks"},
        {"reads": "stars"},
        {"timeout": 0.0},
        {"budget": -1.0},
        {"price_in": -1.0},
        {"kept": 0},
    ],
)
def test_settings_that_cannot_work_are_refused(server: Server, wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        judge(server, **wrong)


@pytest.mark.parametrize("url", ["127.0.0.1:8080/v1", "ftp://host/v1", "", "http://"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(InputError, match="judge 'gpt': got the address"):
        EndpointJudge("gpt", url, "m")
