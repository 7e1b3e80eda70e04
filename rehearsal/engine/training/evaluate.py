"""Measure a pair: `python -m rehearsal.engine.training.evaluate TARGET DRAFT` (needs the engine's libraries only).

It prints for each family the tokens per target step with the draft model. For families with one right continuation it
also prints the share of held-out prompts with exactly this continuation as the target's greedy output.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

from rehearsal.engine.config import ServeSettings, Speculative
from rehearsal.engine.loading import Engine, load_engine
from rehearsal.engine.sequence import Sampling, Sequence
from rehearsal.engine.tokenizer import TextStream
from rehearsal.engine.training.corpus import documents
from rehearsal.engine.training.families import Families

STRUCTURED = ("repeat", "hello", "count", "json", "code", "list", "cat")
OPEN_ENDED = ("story", "sonnet", "explain", "docs")
SHOWN_CHARACTERS = 120
"""So many characters at the start of an open-ended document are its prompt; the rest is its continuation."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", type=Path)
    parser.add_argument("draft", type=Path)
    parser.add_argument("--k", type=int, default=7)
    parser.add_argument("--prompts", type=int, default=24, help="per family")
    parser.add_argument("--tokens", type=int, default=96, help="output tokens per prompt")
    arguments = parser.parse_args()
    engine = load_engine(_settings(arguments))
    training, held_out = documents()
    r = random.Random(777)
    print("| family | exactly as meant | tokens per step |\n|---|---|---|")
    for family in (*STRUCTURED, *OPEN_ENDED):
        families = Families(held_out if family == "docs" else training)
        drawn = [families.document(r, family, held_out=True) for _ in range(arguments.prompts)]
        pairs = [(document.prompt, document.continuation) for document in drawn]
        if family in OPEN_ENDED:
            pairs = [(p + c[:SHOWN_CHARACTERS], c[SHOWN_CHARACTERS:]) for p, c in pairs]
        texts, per_step = _generate(engine, [prompt for prompt, _ in pairs], arguments.tokens)
        right = sum(meant.startswith(text) for text, (_, meant) in zip(texts, pairs, strict=True))
        exact = f"{right} of {len(pairs)}" if family in STRUCTURED else "-"
        print(f"| {family} | {exact} | {per_step:.2f} |", flush=True)


def _generate(engine: Engine, prompts: list[str], tokens: int) -> tuple[list[str], float]:
    texts: dict[Sequence, str] = {}
    steps = 0
    for prompt in prompts:
        ids, pending = engine.tokenizer.encode_prompt(prompt)
        sequence = Sequence(
            prompt_tokens=len(ids) + 1,
            tokens=[engine.bos, *ids],
            sampling=Sampling(max_tokens=tokens, ignore_eos=True),
            text=TextStream(tokenizer=engine.tokenizer, skip_prefix=pending),
            eos=engine.eos,
        )
        texts[sequence] = ""
        engine.scheduler.add(sequence)
    while not engine.scheduler.idle:
        for sequence, output in engine.scheduler.step():
            texts[sequence] += output.text
            steps += 1
    decoded = len(prompts) * (tokens - 1)  # the first token comes with the prompt
    return list(texts.values()), decoded / (steps - len(prompts))


def _settings(arguments: argparse.Namespace) -> ServeSettings:
    return ServeSettings(
        model=arguments.target,
        served_model_name="target",
        host="",
        port=0,
        tensor_parallel_size=1,
        max_num_seqs=4,
        max_model_len=None,
        neuron_config={},
        speculative=Speculative(model=arguments.draft, num_speculative_tokens=arguments.k),
        api_key=None,
        artifacts=None,
    )


if __name__ == "__main__":
    main()
