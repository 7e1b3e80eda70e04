"""A vLLM server as a reader: which tokens of an answer its model would have written, and how it makes tokens of a text.
A server of the target also writes the answers.

What is asked of it (vLLM's OpenAI-compatible server): `/tokenize`, and `/v1/completions` with token ids as the prompt,
`prompt_logprobs: 1` and `max_tokens: 1`. For every position of the prompt it answers with the actual token and the most
probable one, each with its `rank`.
"""

from dataclasses import dataclass
from typing import Any, Protocol

from specdecode.benchmark.endpoint import Endpoint, fetch
from specdecode.escape import clip, line
from specdecode.forecast.answers import ToAnswer, WrittenAnswer, of_exchange
from specdecode.untrusted import Unreadable, parse_json

TIMEOUT_S = 600.0
"""For one reading: a long prompt on a CPU."""
MOST_TOKENS = 2**17
"""Most tokens of a prompt and its answer. A longer answer is cut: the forecast needs no last token. A longer prompt is
refused.
"""

SAID, REPEATED = 80, 12
"""Most characters of a server's words that are shown; and how many in a row, if they are the prompt's, show none."""


class BadServer(ValueError):
    """A server does not answer as a reader must. The message says what is wrong and what to do."""


@dataclass(frozen=True, kw_only=True)
class Tokens:
    """An answer as ids: what the model read, and what it wrote."""

    prompt: tuple[int, ...]
    answer: tuple[int, ...]


def bounded(where: str, prompt: tuple[int, ...], answer: tuple[int, ...]) -> Tokens:
    """At most MOST_TOKENS of both. Raises BadServer."""
    if len(prompt) >= MOST_TOKENS:
        raise BadServer(f"{where}: a prompt of {len(prompt):,} tokens; a forecast reads less than {MOST_TOKENS:,}")
    return Tokens(prompt=prompt, answer=answer[: MOST_TOKENS - len(prompt)])


class Tokenizer(Protocol):
    """Whoever makes tokens of answers."""

    async def tokens(self, answer: WrittenAnswer) -> Tokens:
        """The ids of an answer. Raises BadServer."""


class Draft(Tokenizer, Protocol):
    """Whoever reads answers as a draft model: a server, or this process (local.py)."""

    @property
    def name(self) -> str:
        """The name of the draft in the forecast."""

    async def bits(self, tokens: Tokens) -> list[bool]:
        """For each token of the answer but the first: whether the model writes it too, greedily. Raises BadServer."""


@dataclass(frozen=True, kw_only=True)
class Reader:
    """A server with one model."""

    name: str
    """The name of the draft in the forecast."""
    endpoint: Endpoint
    model: str

    async def tokens(self, answer: WrittenAnswer) -> Tokens:
        """Ids that the answer has are taken; a prompt's text goes through the chat template, or gets its BOS token."""
        asked: dict[str, Any] = {"prompt": answer.prompt, "add_special_tokens": True}
        if not isinstance(answer.prompt, str):
            asked = {"messages": list(answer.prompt), "add_generation_prompt": True, **_template(answer.thinking)}
        prompt = answer.prompt_ids or await self._tokenized(asked)
        own = answer.answer_ids or await self._tokenized({"prompt": answer.text, "add_special_tokens": False})
        return bounded(self._where, prompt, own)

    async def bits(self, tokens: Tokens) -> list[bool]:
        ids = [*tokens.prompt, *tokens.answer]
        asked = {"prompt": ids, "max_tokens": 1, "temperature": 0, "prompt_logprobs": 1}
        found = await self._post("/v1/completions", asked)
        choices = found.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
        read = choice.get("prompt_logprobs")
        if not isinstance(read, list):
            raise BadServer(f"{self._where}: it gives no prompt_logprobs: a vLLM server is needed")
        if len(read) != len(ids):
            raise BadServer(
                f"{self._where}: it read {len(read)} tokens of {len(ids)}: another tokenizer, or a cut prompt"
            )
        first = len(tokens.prompt) + 1
        return [self._is_first(read[at], ids[at]) for at in range(first, len(ids))]

    async def write(self, question: ToAnswer) -> WrittenAnswer:
        """The model's greedy answer, with its ids if the server tells them (vLLM: `return_token_ids`)."""
        chat = not isinstance(question.prompt, str)
        asked: dict[str, Any] = {"prompt": question.prompt}
        if chat:
            asked = {"messages": list(question.prompt), **_template(question.thinking)}
        more = {"max_tokens": question.output_tokens, "temperature": 0, "return_token_ids": True}
        found = await self._post(f"/v1/{'chat/' if chat else ''}completions", {**asked, **more})
        try:
            return of_exchange(asked, found, question.category)
        except ValueError as error:
            raise BadServer(f"{self._where}: {error}") from None

    def _is_first(self, place: Any, token: int) -> bool:
        """Whether `token` is the most probable one at its place. Raises BadServer if the answer contradicts itself."""
        own = place.get(str(token)) if isinstance(place, dict) else None
        if not isinstance(own, dict) or type(rank := own.get("rank")) is not int or rank < 1:
            raise BadServer(f"{self._where}: prompt_logprobs lacks the token that was sent, or its rank")
        values: list[Any] = [each.get("logprob") if isinstance(each, dict) else None for each in place.values()]
        if not all(type(value) in (int, float) and value <= 0 for value in values):
            raise BadServer(f"{self._where}: a log-probability is no number, or above 0")
        firsts = sum(each.get("rank") == 1 for each in place.values())
        if firsts > 1 or (rank == 1 and own["logprob"] < max(values)):
            raise BadServer(
                f"{self._where}: of two tokens at one place both have rank 1, or that of rank 1 is less probable: it "
                "cannot be believed"
            )
        return rank == 1

    async def _tokenized(self, asked: dict[str, Any]) -> tuple[int, ...]:
        found = (await self._post("/tokenize", asked)).get("tokens")
        if not isinstance(found, list) or not all(type(each) is int and each >= 0 for each in found):
            raise BadServer(f"{self._where}: /tokenize gives no list of tokens: a vLLM server is needed")
        return tuple(found)

    async def _post(self, path: str, asked: dict[str, Any]) -> dict[str, Any]:
        status = ""
        try:
            reply = await fetch(self.endpoint, path, {"model": self.model, **asked}, timeout_s=TIMEOUT_S)
            status = f"status {reply.status}, "
            found = parse_json(reply.body)
        except TimeoutError:
            raise BadServer(f"{self._where}{path}: no answer within {TIMEOUT_S:g} s") from None
        except (OSError, Unreadable) as error:
            raise BadServer(f"{self._where}{path}: {status}{error}") from None
        if reply.status != 200 or not isinstance(found, dict):
            told = found.get("error", found) if isinstance(found, dict) else found
            words = str(told.get("message", "") if isinstance(told, dict) else told)
            said = _unless_repeated(self.endpoint.without_key(words), asked)
            raise BadServer(f"{self._where}{path}: status {reply.status}{said and ': '}{said}")
        return found

    @property
    def _where(self) -> str:
        return f"{self.name} at {self.endpoint.url}"


async def reader(name: str, endpoint: Endpoint, model: str | None = None) -> Reader:
    """The server of a draft. `model`: unless it has only one. Raises BadServer."""
    try:
        reply = await fetch(endpoint, "/v1/models")
        listed = parse_json(reply.body)
    except (OSError, Unreadable) as error:
        raise BadServer(f"{name} at {endpoint.url}: {error}; start the draft with `vllm serve MODEL`") from None
    data = listed.get("data") if isinstance(listed, dict) else None
    known = [str(each["id"]) for each in data or () if isinstance(each, dict) and "id" in each]
    if model is None and len(known) != 1:
        raise BadServer(f"{name} at {endpoint.url} has {len(known)} models: name one with --model {name}=MODEL")
    return Reader(name=name, endpoint=endpoint, model=model or known[0])


def _unless_repeated(said: str, asked: dict[str, Any]) -> str:
    """`said`, cut; nothing if it repeats a part of what was asked."""
    texts = [str(asked.get("prompt", "")), *(str(each["content"]) for each in asked.get("messages", ()))]
    pieces = {said[at : at + REPEATED] for at in range(len(said) - REPEATED + 1)}
    repeats = any((text and text in said) or any(piece in text for piece in pieces) for text in texts)
    return "" if repeats else clip(line(said), SAID)


def _template(thinking: bool | None) -> dict[str, Any]:
    """What the chat template is told, as the benchmark tells it (benchmark.request_body)."""
    return {} if thinking is None else {"chat_template_kwargs": {"enable_thinking": thinking}}
