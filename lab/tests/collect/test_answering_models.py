"""A Hugging Face model as a peer: a tiny random one, in a folder, with a chat template."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs the extra [center]")

from sigma_lab.collect.answers import _fits, answer_all, open_peer, pair_up  # noqa: E402
from sigma_lab.collect.cache import AnswerCache  # noqa: E402
from sigma_lab.collect.models import HuggingFaceModel, chat_text  # noqa: E402
from sigma_lab.collect.peers import peer_from  # noqa: E402
from sigma_lab.collect.requests import Reply, RequestWriter  # noqa: E402
from sigma_lab.collect.task_prompts import TaskPrompt  # noqa: E402

_ROLES = "{% for m in messages %}[{{ m['role'] }}] {{ m['content'] }}\n{% endfor %}"
CHAT = _ROLES + "{% if add_generation_prompt %}[assistant] {% endif %}"
NO_SYSTEM = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no') }}{% endif %}" + CHAT


def make_tokenizer(chat: str | None) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    raw = Tokenizer(models.BPE({sign: i for i, sign in enumerate([*alphabet, "<end>"])}, []))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, eos_token="<end>")
    tokenizer.chat_template = chat
    return tokenizer


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    tokenizer = make_tokenizer(CHAT)
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=16, intermediate_size=32, num_hidden_layers=2,
        num_attention_heads=2, max_position_embeddings=256, eos_token_id=tokenizer.eos_token_id,
    )  # fmt: skip
    path: Path = tmp_path_factory.mktemp("model")
    LlamaForCausalLM(config).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


def replies(folder: Path, *prompts: str, **settings: Any) -> list[Reply]:
    peer = peer_from("m", f"hf:{folder}", {"max_tokens": 12, **settings})
    writer = RequestWriter(peer)
    return open_peer(peer).ask([writer.request(TaskPrompt(str(i), text)) for i, text in enumerate(prompts)])


def test_a_batch_answers_as_one_by_one(folder):
    prompts = ["What?", "A much longer question, is it not?", "No."]
    together = replies(folder, *prompts)
    assert together == [replies(folder, prompt)[0] for prompt in prompts]
    assert all(reply.error is None and reply.text for reply in together)
    assert together[0].tokens_in == len("[user] What?\n[assistant] ")
    assert together[0].tokens_out == 12
    assert together[0].finish == "length"


def test_sampling_follows_the_seed(folder):
    one, same, other = (replies(folder, "What?", temperature=1.5, seed=seed)[0].text for seed in (1, 1, 2))
    assert one == same
    assert one != other


def test_an_answer_ends_at_a_stop_string(folder):
    (whole,) = replies(folder, "What?", temperature=1.5, seed=1)
    text = str(whole.text)
    end = next(sign for i, sign in enumerate(text) if i >= 3 and sign.isalnum() and text.index(sign) == i)
    (cut,) = replies(folder, "What?", temperature=1.5, seed=1, stop=[end])
    assert (cut.text, cut.finish) == (text[: text.index(end)].strip(), "stop")


def test_a_prompt_without_room_for_an_answer_is_a_failure(folder):
    short, long = replies(folder, "What?", "x" * 300)
    assert short.error is None
    assert "exceed 256" in str(long.error)


def test_the_likeliest_option_is_chosen(folder):
    """The option that the model itself would write is the likeliest, also among longer ones."""
    from transformers import AutoModelForCausalLM

    choices = [("A", "zebra"), ("B", "x"), ("C", "a house")]
    peer = peer_from("m", f"hf:{folder}", {"choose": True, "max_tokens": 12})
    writer = RequestWriter(peer)
    tasks = [TaskPrompt("q", "What?", tuple(choices)), TaskPrompt("s", "x" * 300, (*choices,))]
    chosen, long = open_peer(peer).ask([writer.request(task) for task in tasks])
    (written,) = open_peer(peer).ask([writer.request(TaskPrompt("r", "Why?"))])
    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), make_tokenizer(CHAT)
    start = tokenizer.encode("[user] What?\n[assistant] Answer:", add_special_tokens=False)
    means = []
    for _, text in choices:  # one forward per option, without padding
        end = tokenizer.encode(f" {text}", add_special_tokens=False)
        with torch.no_grad():
            logits = model(torch.tensor([start + end])).logits[0, len(start) - 1 : -1]
        means.append(-torch.nn.functional.cross_entropy(logits, torch.tensor(end)).item())
    assert chosen.text == f"Answer: {choices[means.index(max(means))][0]}"
    assert written.text
    assert "exceed 256" in str(long.error)


def test_a_chat_is_written_by_the_models_template():
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?"}]
    assert chat_text(make_tokenizer(CHAT), messages) == "[system] Be brief.\n[user] Why?\n[assistant] "
    assert chat_text(make_tokenizer(NO_SYSTEM), messages) == "[user] Be brief.\n\nWhy?\n[assistant] "
    assert chat_text(make_tokenizer(None), messages) == "Be brief.\n\nWhy?\n\n"


def test_prompts_of_one_length_share_a_batch(folder, tmp_path, monkeypatch):
    prompts = ["x" * (40 if i % 2 else 4) for i in range(6)]
    pairs = pair_up(
        [TaskPrompt(str(i), f"{i}{text}") for i, text in enumerate(prompts)],
        [peer_from("m", f"hf:{folder}", {"max_tokens": 2, "batch": 3})],
    )
    batches: list[set[int]] = []
    whole = HuggingFaceModel.ask

    def ask(self: HuggingFaceModel, requests: Any) -> list[Reply]:
        batches.append({len(request["messages"][-1]["content"]) for request in requests})
        return whole(self, requests)

    monkeypatch.setattr(HuggingFaceModel, "ask", ask)
    with AnswerCache(tmp_path / "c.jsonl") as cache:
        (run,) = answer_all(pairs, cache)
        assert {pair.key for pair in pairs} == set(cache.replies)
    assert (run.asked, batches) == (6, [{5}, {41}])


@pytest.mark.parametrize(("long", "together"), [(150, True), (800, False)])
def test_a_far_longer_prompt_pads_no_other(long, together):
    peer = peer_from("m", "hf:some/model", {})
    short, other = (RequestWriter(peer).request(TaskPrompt("q", "x" * n)) for n in (10, long))
    assert _fits(short, other) is together
