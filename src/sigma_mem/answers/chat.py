"""Chat messages as a question: the text of the user's messages."""

from collections.abc import Mapping, Sequence
from reprlib import repr as brief
from typing import Any

from sigma_mem.errors import InputError

Messages = Sequence[Mapping[str, Any]]
Question = str | Messages

_EXPECTED = 'expected text, or chat messages like [{"role": "user", "content": "..."}]'


def question_text(question: Question | None) -> str | None:
    """Return a question as text; of chat messages, the user's texts, with blank lines between.

    Messages of other roles count only if there is none of the user. Of a message with several parts the
    texts count; images, sound and files are ignored.

    >>> question_text([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "17 * 23?"}])
    '17 * 23?'
    """
    if question is None or isinstance(question, str):
        return None if question is None else checked_text(question, "the question")
    if not isinstance(question, list | tuple):
        raise InputError(f"the question is {brief(question)}; {_EXPECTED}")
    messages: Messages = question
    texts: list[str] = []
    others: list[str] = []
    for message in messages:
        if text := _message_text(message):
            (texts if message.get("role") == "user" else others).append(text)
    texts = texts or others
    if not texts:
        raise InputError("the chat messages hold no text, and images are not read; expected some text")
    return checked_text("\n\n".join(texts), "the question")


def checked_text(text: str, what: str) -> str:
    """The text, if it can be written down; InputError for half of a surrogate pair."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InputError(f"{what} is not valid Unicode ({error}); clean it first") from error
    return text


def _message_text(message: Mapping[str, Any]) -> str:
    if not isinstance(message, Mapping):
        raise InputError(f"a message of the question is {brief(message)}; {_EXPECTED}")
    content = message.get("content")
    if content is None or isinstance(content, str):  # a call of a tool has no content
        return (content or "").strip()
    if not isinstance(content, Sequence) or not all(isinstance(part, Mapping) for part in content):
        raise InputError(f"the content of a message is {brief(content)}; {_EXPECTED}")
    texts = (part.get("text") for part in content)
    return "\n".join(text.strip() for text in texts if isinstance(text, str))
