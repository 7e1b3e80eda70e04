"""From a target's answers to the forecast: tokens, what each draft would have written, and the steps for every k."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from specdecode.experiment.most_tokens import MostTokens
from specdecode.forecast.answers import WrittenAnswer, WrittenAnswers
from specdecode.forecast.result import Forecast, Read, of_draft
from specdecode.forecast.server import BadServer, Draft, Tokenizer, Tokens, read_all
from specdecode.speculation.acceptance import agreement, decode
from specdecode.speculation.lookup import lookup_agreement, suffix_steps

NO_MODEL = {"n-gram", "suffix"}
COMPARED = 20
"""Answers whose tokens every draft's server makes too."""

Progress = Callable[[str, int, int], None]
"""Is told what is done, how many answers of it, and of how many."""


async def forecast(
    answers: WrittenAnswers,
    drafts: Sequence[Draft],
    *,
    ks: Sequence[int],
    most: MostTokens,
    progress: Progress,
    tokenizer: Tokenizer | None = None,
) -> Forecast:
    """The forecast of `drafts` and of lookups, which need no model. The tokens are made by `tokenizer`, or by the first
    draft. Raises BadServer.
    """
    maker = tokenizer or drafts[0]
    tokens = []
    for number, answer in enumerate(answers.found, 1):
        tokens.append(await maker.tokens(answer))
        progress("tokens", number, len(answers.found))
    for draft in drafts:
        await _check_alike(draft, answers.found, tokens)
    both, verified = list(zip(answers.found, tokens, strict=True)), sorted({*map(most.verified, ks)})
    found = [
        of_draft("n-gram", "n-gram", [_looked_up(*each, most=verified[-1]) for each in both], ks=ks, most=most),
        of_draft("suffix", "suffix", [_by_suffix(*each, verified) for each in both], ks=ks, most=most),
    ]
    for draft in drafts:
        read = await read_all(draft, tokens, progress=partial(_told, progress, draft.name, len(tokens)))
        own = [
            Read(answer.category, answer.asks, len(bits), partial(decode, agreement(bits)))
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


def _looked_up(answer: WrittenAnswer, own: Tokens, *, most: int) -> Read:
    agree = lookup_agreement(own.prompt, own.answer, most=most)
    return Read(answer.category, answer.asks, len(agree), partial(decode, agree))


def _by_suffix(answer: WrittenAnswer, own: Tokens, verified: Sequence[int]) -> Read:
    steps = suffix_steps(own.prompt, own.answer, verified)
    return Read(answer.category, answer.asks, max(0, len(own.answer) - 1), steps.__getitem__)


async def _check_alike(draft: Draft, answers: Sequence[WrittenAnswer], tokens: Sequence[Tokens]) -> None:
    """Refuse a draft whose tokenizer or chat template is another one than that of the answers' tokens."""
    for answer, own in list(zip(answers, tokens, strict=True))[:COMPARED]:
        made = (await draft.tokens(replace(answer, prompt_ids=(), answer_ids=()))).prompt
        counted = answer.prompt_counted or len(own.prompt)
        if made != own.prompt or len(made) != counted:
            raise BadServer(
                f"{draft.name} makes other tokens of a prompt ({len(made)} of them, not {counted}): "
                "its tokenizer or chat template is another one, and a draft must have its target's"
            )
