"""Sampled answers: with strict verification the forecast is unbiased. Held against a sampler of our own over the pair.

The sampler verifies as vLLM does with a draft model: the draft proposes its most probable token; the target accepts it
with its own probability of it, else samples among all others (Leviathan et al. 2023, with a draft that is sure).
"""

import math
import statistics

import numpy as np
import pytest
from specdecode.speculation.acceptance import agreement, decode

from rehearsal.engine.artifact import CompiledArrays
from rehearsal.engine.config import read_model_folder
from rehearsal.engine.forward import Cache, NeuralNetwork, Segment
from rehearsal.engine.packing import pack_weights, plan_tables
from rehearsal.engine.tokenizer import Tokenizer
from rehearsal.tools import ROOT

K, TOKENS, WINDOW, TEMPERATURE = 4, 40, 128, 0.7
ANSWERS = 20
"""Of each prompt."""
PROMPTS = ("Count from 5 to 80:\n5, 6, 7,", "The old house at the end of the road", "def area(width, height):\n")


class Model:
    """One model of the pair, on one text at a time."""

    def __init__(self, name: str) -> None:
        folder = read_model_folder(ROOT / "rehearsal" / "engine" / "weights" / name)
        tables = plan_tables(folder.config, positions=WINDOW)
        self.network = NeuralNetwork(folder.config, CompiledArrays(weights=pack_weights(folder), tables=tables))
        self.tokenizer, self.first = Tokenizer(folder.tokenizer), folder.config.bos_token_id

    def read(self, cache: Cache, tokens: list[int], wanted: int) -> np.ndarray:
        """Logits after the last `wanted` tokens; what is before them is in the cache."""
        start = 0 if wanted == len(tokens) else len(tokens) - wanted
        (found,) = self.network.forward([Segment(cache=cache, tokens=tokens, start=start, wanted=wanted)])
        return found.astype(float)

    def begun(self, tokens: list[int]) -> Cache:
        """A cache that has all tokens but the last."""
        cache = Cache(self.network.config, positions=WINDOW)
        self.read(cache, tokens[:-1], len(tokens) - 1)
        return cache


def probabilities(logits: np.ndarray) -> np.ndarray:
    found = np.exp((logits - logits.max()) / TEMPERATURE)
    return found / found.sum()


def sampled(target: Model, prompt: list[int], rng: np.random.Generator) -> list[int]:
    cache, tokens = target.begun(prompt), list(prompt)
    for _ in range(TOKENS):
        tokens.append(
            int(rng.choice(target.network.config.vocab_size, p=probabilities(target.read(cache, tokens, 1)[0])))
        )
    return tokens[len(prompt) :]


def speculated(target: Model, draft: Model, prompt: list[int], rng: np.random.Generator) -> tuple[int, int]:
    """Tokens and steps of an answer with K drafts a step, after its first token."""
    caches = target.begun(prompt), draft.begun(prompt)
    begin = probabilities(target.read(caches[0], prompt, 1)[0])
    tokens, steps = [*prompt, int(rng.choice(len(begin), p=begin))], 0
    draft.read(caches[1], prompt, 1)
    done = len(tokens) - 1
    while len(tokens) < len(prompt) + TOKENS:
        proposal = list(tokens)
        for _ in range(K):
            proposal.append(int(draft.read(caches[1], proposal, len(proposal) - done)[-1].argmax()))
            done = len(proposal) - 1
        logits = target.read(caches[0], proposal, K + 1)
        steps += 1
        for at, drafted in enumerate(proposal[len(tokens) :]):
            chances = probabilities(logits[at])
            if rng.random() >= chances[drafted]:
                chances[drafted] = 0.0
                tokens.append(int(rng.choice(len(chances), p=chances / chances.sum())))
                break
            tokens.append(drafted)
        else:
            tokens.append(int(rng.choice(len(logits[-1]), p=probabilities(logits[-1]))))
        done = min(done, len(tokens) - 1)
    return len(tokens) - len(prompt) - 1, steps


@pytest.mark.slow
def test_the_forecast_from_sampled_answers_is_the_mean_of_a_sampler_with_strict_verification() -> None:
    target, draft = Model("pair-target"), Model("pair-draft")
    rng = np.random.default_rng(7)
    told, measured = [], []
    for text in PROMPTS * ANSWERS:
        prompt = [target.first, *target.tokenizer.encode(text)]
        answer = sampled(target, prompt, rng)
        whole = [*prompt, *answer]
        read = draft.read(Cache(draft.network.config, positions=WINDOW), whole, len(whole)).argmax(axis=1)
        bits = [int(read[at - 1]) == whole[at] for at in range(len(prompt) + 1, len(whole))]
        told.append((len(bits), decode(agreement(bits), K).steps))
        measured.append(speculated(target, draft, prompt, rng))
    each = (told, measured)
    forecast, found = (sum(tokens for tokens, _ in one) / sum(steps for _, steps in one) for one in each)
    errors = [statistics.stdev(steps / tokens for tokens, steps in one) / math.sqrt(len(one)) for one in each]
    assert 1.2 < found < K, "some drafts are accepted and some are not"
    assert abs(1.0 / forecast - 1.0 / found) < 3.0 * math.hypot(*errors), (forecast, found)
