"""Drafts that need no model: the tokens that followed the same words earlier in the prompt or the answer.

`lookup_agreement`: as vLLM's method `ngram` proposes them (vllm/v1/spec_decode/ngram_proposer.py,
`_find_longest_matched_ngram_and_propose_tokens`): the longest n-gram of `shortest` to `longest` tokens at the end of
the text is looked for from the text's beginning, and what followed its first occurrence is proposed, as far as it is
there.

`suffix_steps`: as vLLM's method `suffix` does with its defaults (vllm/v1/spec_decode/suffix_decoding.py, and
snowflakedb/ArcticInference, csrc/suffix_decoding/suffix_tree.cc: `speculate`, `_speculate_path`), from the request's
own text. Earlier answers, whose use depends on their order, are left out (`suffix_decoding_max_cached_requests: 0`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from specdecode.speculation.acceptance import Steps

LONGEST = SHORTEST = 5
"""vLLM's defaults of `prompt_lookup_max` and `prompt_lookup_min` (vllm/config/speculative.py)."""
DEPTH, LEAST = 24, 0.1
"""Its defaults of `suffix_decoding_max_tree_depth` (vLLM's; ArcticInference alone has 64) and
`suffix_decoding_min_token_prob`. A proposal is no longer than its match: `suffix_decoding_max_spec_factor` is 1."""


def lookup_agreement(
    prompt: Sequence[int], answer: Sequence[int], *, most: int, longest: int = LONGEST, shortest: int = SHORTEST
) -> list[int]:
    """`acceptance.Agreement` of this proposer. `most`: the largest k that will be asked for.

    A proposal ends where the text ends. So one of k tokens is a beginning of the longest, and one agreement serves
    every k up to `most`.
    """
    text = [*prompt, *answer]
    sizes = range(longest, shortest - 1, -1)
    ends: dict[tuple[int, ...], int] = {}
    found: list[int] = []
    for at in range(1, len(text)):
        # `ends` has each n-gram that ends before the last token of text[:at], with the place after its first
        # occurrence.
        if at > len(prompt):
            after = next(
                (ends[gram] for size in sizes if size <= at and (gram := tuple(text[at - size : at])) in ends), at
            )
            agree = 0
            while agree < most and after + agree < at and at + agree < len(text):
                if text[after + agree] != text[at + agree]:
                    break
                agree += 1
            found.append(agree)
        for size in sizes:
            if size <= at:
                ends.setdefault(tuple(text[at - size : at]), at)
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
    """The steps of one answer for each number of verified drafts. A short proposal is not the beginning of a long one,
    so one agreement does not serve all.
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
    """What most probably follows, by the sum of its tokens' frequencies; of equals that of the longest match. `ends`:
    the end of every match, by its length.
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
