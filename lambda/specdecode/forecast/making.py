"""From a target's answers to the forecast: tokens, what each draft would have written, and the steps for every k."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from specdecode.experiment.most_tokens import MostTokens
from specdecode.forecast.answers import ToAnswer, WrittenAnswer, WrittenAnswers
from specdecode.forecast.result import Forecast, Kind, Read, of_draft
from specdecode.forecast.server import BadServer, Draft, Reader, Tokenizer, Tokens
from specdecode.speculation.acceptance import agreement, decode, lookup_agreement, suffix_steps

NO_MODEL = {"n-gram", "suffix"}
AT_A_TIME = 4
"""Answers under way. One reading fills a batch by itself."""
COMPARED = 20
"""Answers whose tokens every draft makes too."""
LEAST_TOKENS, LEAST_SHARE = 8, 0.5
"""A draft has another tokenizer if it makes so many tokens of an answer's text, and less than this share of them is
among the ids that the target wrote. With the same tokenizer few are not: a model may write a text in other tokens than
its tokenizer.
"""
OWN_READ, OWN_SHARE = 4, 0.95
"""Answers that the target's server reads itself, and the least share of their tokens that it must find most probable.
Of greedy answers all are, but for near-ties that another batch rounds otherwise.
"""

Progress = Callable[[str, int, int], None]
"""Is told what is done, how many answers of it, and of how many."""


class ToWrite(NamedTuple):
    """Answers that a server of the target is yet to write."""

    target: Reader
    questions: Sequence[ToAnswer]


class _Reading(NamedTuple):
    """What is kept of an answer: neither its text nor its ids, which may be large."""

    reads: list[Read]
    """By n-gram, by suffix, and by each draft."""
    recounted: bool
    """Whether its server counted another number of tokens."""


async def forecast(
    answers: WrittenAnswers | ToWrite,
    drafts: Sequence[Draft],
    *,
    ks: Sequence[int],
    most: MostTokens,
    progress: Progress,
    tokenizer: Tokenizer | None = None,
) -> Forecast:
    """The forecast of `drafts` and of lookups, which need no model. The first draft makes the tokens; without one the
    target's `tokenizer`, else every draft must make the same as it. Raises BadServer, ExceptionGroup of it.
    """
    reader = _Answers(answers, drafts, tokenizer, sorted({*map(most.verified, ks)}))
    found = await reader.read(progress)
    names: list[tuple[str, Kind]] = [("n-gram", "n-gram"), ("suffix", "suffix")]
    names += [(draft.name, "model") for draft in drafts]
    told = [of_draft(*name, [one.reads[at] for one in found], ks=ks, most=most) for at, name in enumerate(names)]
    notes = [] if isinstance(answers, ToWrite) else [*answers.left_out]
    if off := sum(one.recounted for one in found):
        notes.append(
            f"{off} of {len(found)} answers have another number of tokens than their server counted: they were stored "
            "as text, and are tokenized anew; figures of few answers may be off by some percent"
        )
    return Forecast(most_tokens_per_step=most, drafts=tuple(told), notes=(*notes, *reader.notes()))


@dataclass
class _Answers:
    """Reads one answer after the other, and forgets it."""

    source: WrittenAnswers | ToWrite
    drafts: Sequence[Draft]
    tokenizer: Tokenizer | None
    verified: Sequence[int]
    own_bits: list[bool] = field(default_factory=list)
    """Of the target's own answers, read by its server."""
    not_read: str = ""
    """Why its server could not read them."""

    async def read(self, progress: Progress) -> list[_Reading]:
        """All, in order, AT_A_TIME at a time."""
        source = self.source.questions if isinstance(self.source, ToWrite) else self.source.found
        slots, done = asyncio.Semaphore(AT_A_TIME), 0

        async def one(number: int) -> _Reading:
            nonlocal done
            async with slots:
                found = await self._one(number)
            done += 1
            progress("read", done, len(source))
            return found

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(number)) for number in range(len(source))]
        return [task.result() for task in tasks]

    async def _one(self, number: int) -> _Reading:
        maker = self.drafts[0] if self.drafts else self.tokenizer
        if maker is None:
            raise ValueError("neither a draft nor a tokenizer")
        if isinstance(self.source, ToWrite):
            answer = await self.source.target.write(self.source.questions[number])
        else:
            answer = self.source.found[number]
        own = await maker.tokens(answer)
        for draft in self.drafts if number < COMPARED else ():
            await self._check_alike(draft, answer, own)
        if isinstance(self.source, ToWrite) and number < OWN_READ:
            try:
                self.own_bits += await self.source.target.bits(own)
            except BadServer as error:
                self.not_read = str(error)
        agree = [lookup_agreement(own.prompt, own.answer, most=self.verified[-1])]
        agree += [agreement(await draft.bits(own)) for draft in self.drafts]
        steps = [{n: decode(each, n) for n in self.verified} for each in agree]
        steps.insert(1, suffix_steps(own.prompt, own.answer, self.verified))
        tokens = max(0, len(own.answer) - 1)
        return _Reading(
            reads=[Read(answer.category, answer.asks, tokens, each.__getitem__) for each in steps],
            recounted=answer.counted not in (None, len(own.answer)),
        )

    async def _check_alike(self, draft: Draft, answer: WrittenAnswer, own: Tokens) -> None:
        """Refuse a draft whose tokenizer or chat template is another one than that of the answers' tokens."""
        text = replace(answer, prompt_ids=(), answer_ids=())
        made = await draft.tokens(text)
        counted = answer.prompt_counted or len(own.prompt)
        if made.prompt != own.prompt or len(made.prompt) != counted:
            raise _other(draft, "a prompt", len(made.prompt), counted)
        targets = (await self.tokenizer.tokens(text)).answer if self.tokenizer else own.answer
        same = sum((Counter(made.answer) & Counter(targets)).values())
        mostly = len(made.answer) < LEAST_TOKENS or same >= LEAST_SHARE * len(made.answer)
        if made.answer != targets and not (mostly and answer.answer_ids and not self.tokenizer):
            raise _other(draft, "an answer", len(made.answer), len(targets))

    def notes(self) -> list[str]:
        """What is to be said of the target's server."""
        if self.not_read:
            return [f"whether the target writes greedily is not known: {self.not_read}"]
        if sum(self.own_bits) >= OWN_SHARE * len(self.own_bits):
            return []
        return [
            f"DO NOT USE THIS FORECAST: the target's server finds only {sum(self.own_bits)} of {len(self.own_bits)} "
            "tokens of its own answers the most probable ones. It does not write greedily (a penalty in its "
            "generation_config.json?), or its prompt_logprobs are wrong"
        ]


def _other(draft: Draft, what: str, made: int, targets: int) -> BadServer:
    how = "as many, but other ones" if made == targets else f"{made} of them, not {targets}"
    return BadServer(
        f"{draft.name} makes other tokens of {what} ({how}): its tokenizer or chat template is another one, and a "
        "draft must have its target's"
    )
