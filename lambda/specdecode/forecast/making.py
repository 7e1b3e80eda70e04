"""From a target's answers to the forecast: tokens, what each draft would have written, and the steps for every k."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from specdecode.experiment.most_tokens import MostTokens
from specdecode.forecast.answers import WrittenAnswer, WrittenAnswers
from specdecode.forecast.result import Forecast, Read, of_draft
from specdecode.forecast.server import BadServer, Reader, Tokens, read_all
from specdecode.speculation.acceptance import agreement
from specdecode.speculation.lookup import lookup_agreement

LOOKUP = "n-gram"
COMPARED = 20
"""Answers whose tokens every draft's server makes too."""

Progress = Callable[[str, int, int], None]
"""Is told what is done, how many answers of it, and of how many."""


async def forecast(
    answers: WrittenAnswers, drafts: Sequence[Reader], *, ks: Sequence[int], most: MostTokens, progress: Progress
) -> Forecast:
    """The forecast of `drafts` (one or more; the first one's server makes the tokens) and of n-gram lookup, which
    needs no model. Raises BadServer.
    """
    tokens = []
    for number, answer in enumerate(answers.found, 1):
        tokens.append(await drafts[0].tokens(answer))
        progress("tokens", number, len(answers.found))
    for draft in drafts:
        await _check_alike(draft, answers.found, tokens)
    found = [
        of_draft(
            LOOKUP, "n-gram", _looked_up(answers.found, tokens, most=max(map(most.verified, ks))), ks=ks, most=most
        )
    ]
    for draft in drafts:
        read = await read_all(draft, tokens, progress=partial(_told, progress, draft.name, len(tokens)))
        own = [
            Read(answer.category, answer.asks, agreement(bits))
            for answer, bits in zip(answers.found, read, strict=True)
        ]
        found.append(of_draft(draft.name, "model", own, ks=ks, most=most))
    notes = (*answers.left_out, *_recounted(answers.found, tokens))
    return Forecast(most_tokens_per_step=most, drafts=tuple(found), notes=notes)


def _recounted(answers: Sequence[WrittenAnswer], tokens: Sequence[Tokens]) -> list[str]:
    """A line if answers that were stored as text have another number of tokens than their server wrote."""
    off = sum(answer.counted not in (None, len(own.answer)) for answer, own in zip(answers, tokens, strict=True))
    if not off:
        return []
    return [
        f"{off} of {len(answers)} answers have another number of tokens than their server counted: they were stored as "
        "text, and are tokenized anew; figures of few answers may be off by some percent"
    ]


def _told(progress: Progress, name: str, of: int, done: int) -> None:
    progress(name, done, of)


def _looked_up(answers: Sequence[WrittenAnswer], tokens: Sequence[Tokens], *, most: int) -> list[Read]:
    return [
        Read(answer.category, answer.asks, lookup_agreement(own.prompt, own.answer, most=most))
        for answer, own in zip(answers, tokens, strict=True)
    ]


async def _check_alike(draft: Reader, answers: Sequence[WrittenAnswer], tokens: Sequence[Tokens]) -> None:
    """Refuse a draft whose tokenizer or chat template is another one than that of the answers' tokens."""
    for answer, own in list(zip(answers, tokens, strict=True))[:COMPARED]:
        prompt = await draft.tokens(WrittenAnswer(category="", prompt=answer.prompt, text=answer.text))
        if prompt.prompt != own.prompt:
            raise BadServer(
                f"{draft.name} makes other tokens of a prompt ({len(prompt.prompt)} of them, not {len(own.prompt)}): "
                "its tokenizer or chat template is another one, and a draft must have its target's"
            )
