"""How many steps an answer takes for any k, read from the answer and from what a draft would have written in its
places; and drafts that need no model: what followed the same words earlier in the prompt or the answer.

With greedy decoding a drafted token is accepted exactly if it is the token that the target writes (Leviathan, Kalman,
Matias 2023, arXiv 2211.17192, section 2.3, for temperature 0), and what was accepted is the target's own answer. So a
draft that is read once over prompt and answer says at each place whether it would have written the answer's token
there: a run of such places is what a step accepts. No target model runs, and one reading serves every k.

With sampling the same holds where a server accepts the draft's most probable token with the target's probability of it
(vLLM's strict verification): over answers that the target sampled, the mean over these places is unbiased.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

Agreement = Sequence[int]
"""For each token of an answer but the first: how many drafted tokens, from this one on, are the answer's own. The first
token comes from the prompt's own step, and is not drafted."""
NGRAM = 5
"""vLLM's default of `prompt_lookup_min` and of `prompt_lookup_max` (vllm/config/speculative.py)."""
DEPTH, LEAST = 24, 0.1
"""Its defaults of `suffix_decoding_max_tree_depth` (ArcticInference alone has 64) and `suffix_decoding_min_token_prob`.
A proposal is no longer than its match: `suffix_decoding_max_spec_factor` is 1."""


class Steps(NamedTuple):
    """The decoding of some answers with n verified drafts a step."""

    n: int
    tokens: int
    """Tokens of the answers, without the first of each."""
    accepted: tuple[int, ...]
    """How many steps accepted 0, 1, … n drafts. The last step of an answer accepts no more than the answer has left."""

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
    """The agreement of a draft. `bits`: for each token of the answer but the first, whether the draft writes it too."""
    runs = accumulate(reversed(list(bits)), lambda run, bit: run + 1 if bit else 0, initial=0)
    return list(runs)[:0:-1]


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


def lookup_agreement(prompt: Sequence[int], answer: Sequence[int], *, most: int, size: int = NGRAM) -> list[int]:
    """The agreement of vLLM's method `ngram` (vllm/v1/spec_decode/ngram_proposer.py,
    `_find_longest_matched_ngram_and_propose_tokens`): what followed the first occurrence of the last `size` tokens, as
    far as it is there. `most`: the largest k that will be asked for.

    A proposal ends where the text ends. So one of k tokens is a beginning of the longest, and one agreement serves
    every k up to `most`.
    """
    text = [*prompt, *answer]
    after: dict[tuple[int, ...], int] = {}
    """Each n-gram that ends before the last token of text[:at] -> the place after its first occurrence."""
    found: list[int] = []
    for at in range(1, len(text)):
        gram = tuple(text[max(0, at - size) : at])
        if at > len(prompt):
            begin = after.get(gram, at)
            reach = min(most, at - begin, len(text) - at)
            found.append(next((i for i in range(reach) if text[begin + i] != text[at + i]), reach))
        if at >= size:
            after.setdefault(gram, at)
    return found


class _Node:
    """The tokens on the way from the root: how often they are in the text, what followed, and what followed most."""

    __slots__ = ("count", "most", "next")

    def __init__(self) -> None:
        self.count = 0
        self.next: dict[int, _Node] = {}
        self.most: int | None = None

    def follow(self, token: int) -> _Node:
        """Count what follows. Of tokens that are equally frequent, the first to be so stays the most frequent."""
        child = self.next.setdefault(token, _Node())
        child.count += 1
        if self.most is None or child.count > self.next[self.most].count:
            self.most = token
        return child


def suffix_steps(prompt: Sequence[int], answer: Sequence[int], verified: Iterable[int]) -> dict[int, Steps]:
    """The steps of one answer for each number of verified drafts: a short proposal is no beginning of a long one.

    As vLLM's method `suffix` does with its defaults (vllm/v1/spec_decode/suffix_decoding.py, and
    snowflakedb/ArcticInference, csrc/suffix_decoding/suffix_tree.cc: `speculate`, `_speculate_path`), from the
    request's own text. Earlier answers, whose use depends on their order, are left out.
    """
    text, first = [*prompt, *answer], len(prompt) + 1
    accepted = {n: [0] * (n + 1) for n in verified}
    begins = dict.fromkeys(accepted, first)
    root = _Node()
    ends = [root]
    for at, token in enumerate(text):
        for n in [n for n, begin in begins.items() if begin == at]:
            taken = 0
            for proposed in _proposal(ends, n):
                if at + taken == len(text) or text[at + taken] != proposed:
                    break
                taken += 1
            accepted[n][taken] += 1
            begins[n] += taken + 1
        ends = [root, *(node.follow(token) for node in ends[:DEPTH])]
    return {n: Steps(n, max(0, len(answer) - 1), tuple(counts)) for n, counts in accepted.items()}


def _proposal(ends: Sequence[_Node], most: int) -> list[int]:
    """What most probably follows, by the sum of its tokens' frequencies; of equals the longest match's. `ends`: by
    length.
    """
    best: tuple[float, list[int]] = (0.0, [])
    for length, node in enumerate(ends[1:DEPTH], 1):
        found: list[int] = []
        score, here = 0.0, node
        while len(found) < min(most, length, DEPTH - length) and here.most is not None:
            token, here = here.most, here.next[here.most]
            if here.count / node.count < LEAST:
                break
            found.append(token)
            score += here.count / node.count
        if score >= best[0]:
            best = (score, found)
    return best[1]
