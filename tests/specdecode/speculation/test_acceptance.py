"""Steps read from answers are the steps that a speculating server takes."""

import random
import time
from collections.abc import Callable, Sequence
from functools import partial

import pytest
from specdecode.speculation.acceptance import Steps, agreement, decode, lookup_agreement, suffix_steps, together

Model = Callable[[Sequence[int]], int]
Propose = Callable[[Sequence[int], int], list[int]]


def toy(seed: int, *, words: int = 7, memory: int = 3) -> Model:
    """A model whose next token follows from its last few, in no pattern."""
    return lambda text: random.Random(f"{seed}{list(text[-memory:])}").randrange(words)


def greedy(target: Model, prompt: Sequence[int], length: int) -> list[int]:
    text = list(prompt)
    for _ in range(length):
        text.append(target(text))
    return text[len(prompt) :]


def speculate(target: Model, propose: Propose, prompt: Sequence[int], length: int, n: int) -> tuple[list[int], int]:
    """Greedy speculative decoding, step by step: the answer, and the steps after the prompt's own."""
    text = [*prompt, target(prompt)]
    steps = 0
    while len(text) - len(prompt) < length:
        steps += 1
        for drafted in propose(text, n):
            if drafted != target(text):
                break
            text.append(drafted)
        text.append(target(text))
    return text[len(prompt) :][:length], steps


def of_text(size: int) -> Propose:
    """What followed the first occurrence of the last `size` tokens: by looking everywhere."""

    def propose(text: Sequence[int], n: int) -> list[int]:
        for start in range(len(text) - size):
            if text[start : start + size] == text[len(text) - size :]:
                return list(text[start + size : start + size + n])
        return []

    return propose


@pytest.mark.parametrize("seed", range(6))
def test_a_draft_that_reads_the_answer_once_tells_the_steps_of_every_k(seed: int) -> None:
    other = toy(seed + 100)
    target = toy(seed)

    def draft(text: Sequence[int]) -> int:
        """Errs now and then."""
        return other(text) if random.Random(f"{seed} {list(text)}").random() < 0.3 else target(text)

    prompt, length = [1, 2, 3], 60 + seed
    answer = greedy(target, prompt, length)
    text = [*prompt, *answer]
    agree = agreement(draft(text[:at]) == text[at] for at in range(len(prompt) + 1, len(text)))
    for n in range(9):
        found, steps = speculate(target, partial(greedy, draft), prompt, length, n)
        assert found == answer
        assert decode(agree, n).steps == steps


@pytest.mark.parametrize("size", [1, 3, 5])
@pytest.mark.parametrize("seed", range(4))
def test_lookup_takes_the_steps_of_a_proposer_that_looks_everywhere(seed: int, size: int) -> None:
    target = toy(seed, words=4, memory=3)  # so few words that its answers go round in circles
    prompt = [random.Random(seed).randrange(4) for _ in range(9)]
    answer = greedy(target, prompt, 70)
    agree = lookup_agreement(prompt, answer, most=8, size=size)
    for n in (1, 2, 3, 5, 8):
        assert decode(agree, n).steps == speculate(target, of_text(size), prompt, 70, n)[1]


def test_steps_are_counted_by_what_they_accept() -> None:
    found = decode([2, 1, 0, 0, 3, 2, 1], 2)
    assert found == Steps(n=2, tokens=7, accepted=(1, 0, 2))
    assert found.steps == 3
    assert found.by_position == (2 / 3, 2 / 3)
    assert together([found, decode([0], 2)]).accepted == (2, 0, 2)
    with pytest.raises(ValueError, match="one n"):
        together([decode([0], 2), decode([0], 3)])


def suffix_by_counting(text: list[int], most: int) -> list[int]:
    """What vLLM's suffix decoding proposes after `text`, by counting in the text itself."""

    def ends_of(words: list[int]) -> list[int]:
        return [at for at in range(len(words), len(text) + 1) if text[at - len(words) : at] == words]

    best: tuple[float, list[int]] = (0.0, [])
    for length in range(1, min(24, len(text))):
        match = text[-length:]
        proposal, score = list[int](), 0.0
        while len(proposal) < min(most, length, 24 - length):
            after = {
                token: ends_of([*match, *proposal, token])
                for token in {text[at] for at in ends_of([*match, *proposal]) if at < len(text)}
            }
            if not after:
                break
            often = max(map(len, after.values()))
            token = min((at[often - 1], token) for token, at in after.items() if len(at) == often)[1]
            if often / len(ends_of(match)) < 0.1:
                break
            proposal.append(token)
            score += often / len(ends_of(match))
        if score >= best[0]:
            best = (score, proposal)
    return best[1]


@pytest.mark.parametrize("seed", range(12))
def test_suffixes_are_proposed_as_by_counting(seed: int) -> None:
    rng = random.Random(seed)
    longest = 30 if seed % 4 == 3 else 9
    words = [rng.choices(range(2 + seed % 4), k=rng.randint(2, longest)) for _ in range(3)]
    text = [token for _ in range(9) for token in rng.choice(words)] + rng.choices(range(5), k=3)
    prompt, answer = text[: len(text) // 2], text[len(text) // 2 :]
    for n, found in suffix_steps(prompt, answer, (1, 3, 7)).items():
        at, accepted = len(prompt) + 1, [0] * (n + 1)
        while at < len(text):
            proposal = suffix_by_counting(text[:at], n)
            taken = next((i for i, token in enumerate(proposal) if text[at + i : at + i + 1] != [token]), len(proposal))
            accepted[taken] += 1
            at += taken + 1
        assert found.accepted == tuple(accepted) and found.tokens == len(answer) - 1


def test_a_match_and_its_proposal_have_24_tokens_together_at_most() -> None:
    """The default of `suffix_decoding_max_tree_depth` (vllm-project/vllm, vllm/config/speculative.py: "the sum of the
    prefix match and speculation lengths"). So what repeats for ever is proposed 12 tokens at a time.
    """
    prompt = list(range(100))
    (found,) = suffix_steps(prompt, [1000, *prompt], [20]).values()
    assert max(taken for taken, times in enumerate(found.accepted) if times) == 12


@pytest.mark.slow
def test_ten_thousand_answers_are_walked_for_every_k_in_ten_seconds_of_a_core() -> None:
    rng = random.Random(1)
    answers = [[rng.random() < 0.8 for _ in range(499)] for _ in range(10_000)]
    began = time.process_time()
    steps = sum(decode(agree, k).steps for agree in map(agreement, answers) for k in range(1, 16))
    assert time.process_time() - began <= 10.0 and steps > 10_000 * 15
