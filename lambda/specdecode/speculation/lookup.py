"""Drafts that need no model: the tokens that followed the same words earlier in the prompt or the answer.

As vLLM's method `ngram` proposes them (vllm/v1/spec_decode/ngram_proposer.py,
`_find_longest_matched_ngram_and_propose_tokens`): the longest n-gram of `shortest` to `longest` tokens at the end of
the text is looked for from the text's beginning, and what followed its first occurrence is proposed, as far as it is
there.
"""

from __future__ import annotations

from collections.abc import Sequence

LONGEST = SHORTEST = 5
"""vLLM's defaults of `prompt_lookup_max` and `prompt_lookup_min` (vllm/config/speculative.py)."""


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
