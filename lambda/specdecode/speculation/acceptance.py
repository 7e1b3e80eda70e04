"""How many steps an answer takes for any k, read from the answer and from what a draft would have written in its
places.

With greedy decoding a drafted token is accepted exactly if it is the token that the target writes (Leviathan, Kalman,
Matias 2023, arXiv 2211.17192, section 2.3, for temperature 0), and what was accepted is the target's own answer. So a
draft that is read once over prompt and answer says at each place whether it would have written the answer's token
there: a run of such places is what a step accepts. No target model runs, and one reading serves every k.

With sampling the same holds where a server accepts the draft's most probable token with the target's probability of it
(vLLM's strict verification): over answers that the target sampled, the mean over these places is unbiased.
"""

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

Agreement = Sequence[int]
"""For each token of an answer but the first: how many drafted tokens, from this one on, are the answer's own. The first
token comes from the prompt's own step, and is not drafted."""


class Steps(NamedTuple):
    """The decoding of some answers with n verified drafts a step."""

    n: int
    tokens: int
    """Tokens of the answers, without the first of each."""
    accepted: tuple[int, ...]
    """How many steps accepted 0, 1, … n drafts. The last step of an answer accepts no more than the answer still
    has.
    """

    @property
    def steps(self) -> int:
        """Steps of the target after the prompt's own."""
        return sum(self.accepted)

    @property
    def by_position(self) -> tuple[float, ...]:
        """Share of all steps that accepted the draft at position 1, 2, … n. Empty if there is no step."""
        reached = list(accumulate(reversed(self.accepted)))
        return tuple(times / self.steps for times in reversed(reached[:-1])) if self.steps else ()


def together(parts: Iterable[Steps]) -> Steps:
    """The steps of several answers, of one n. Raises ValueError if there is none."""
    found = list(parts)
    if len({part.n for part in found}) != 1:
        raise ValueError("steps of one n, and of one answer or more, can be added up")
    columns = zip(*(part.accepted for part in found), strict=True)
    return Steps(found[0].n, sum(part.tokens for part in found), tuple(map(sum, columns)))


def agreement(bits: Iterable[bool]) -> list[int]:
    """The agreement of a draft model. `bits`: for each token of the answer but the first, whether the draft, read over
    all before it, writes it too.
    """
    found: list[int] = []
    run = 0
    for bit in reversed(list(bits)):
        run = run + 1 if bit else 0
        found.append(run)
    found.reverse()
    return found


def decode(agree: Agreement, n: int) -> Steps:
    """The steps of one answer if up to `n` drafts a step are verified (`MostTokens.verified`)."""
    accepted = [0] * (n + 1)
    at, end = 0, len(agree)
    while at < end:
        taken = agree[at]
        if taken > n:
            taken = n
        accepted[taken] += 1
        at += taken + 1
    return Steps(n, end, tuple(accepted))
