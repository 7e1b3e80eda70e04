"""The target's own greedy outputs, generated with this engine. The draft model learns to predict them."""

from __future__ import annotations

import random
import time
from pathlib import Path

import numpy as np

from rehearsal.engine.config import ServeSettings, Speculative
from rehearsal.engine.loading import load_engine
from rehearsal.engine.sequence import Sampling, Sequence
from rehearsal.engine.tokenizer import TextStream, Tokenizer
from rehearsal.engine.training.data import BOS, MIX
from rehearsal.engine.training.families import Families

BATCH = 8
OUTPUT_TOKENS = (160, 320, 640)
OPEN_ENDED = ("story", "sonnet", "explain", "docs")


def generate(path: Path, *, target: Path, draft: Path, families: Families, seed: int, seconds: float) -> int:
    """Write outputs for fresh prompts of every family until `seconds` have passed. Returns the number of generated
    tokens.
    """
    settings = ServeSettings(
        model=target,
        served_model_name="target",
        host="",
        port=0,
        tensor_parallel_size=1,
        max_num_seqs=BATCH,
        max_model_len=None,
        neuron_config={},
        speculative=Speculative(model=draft, num_speculative_tokens=5),
        api_key=None,
        artifacts=None,
    )
    engine = load_engine(settings)
    r = random.Random(seed)
    done: list[Sequence] = []
    waiting = 0
    started = time.monotonic()
    while (fresh := time.monotonic() - started < seconds) or waiting:
        while fresh and waiting < BATCH:
            engine.scheduler.add(_request(r, families, engine.tokenizer, engine.eos))
            waiting += 1
        for sequence, output in engine.scheduler.step():
            if output.finish_reason is not None:
                done.append(sequence)
                waiting -= 1
    np.savez_compressed(
        path,
        tokens=np.array([token for sequence in done for token in sequence.tokens], dtype=np.uint16),
        lengths=np.array([len(sequence.tokens) for sequence in done]),
        prompts=np.array([sequence.prompt_tokens for sequence in done]),
    )
    return sum(sequence.generated for sequence in done)


def _request(r: random.Random, families: Families, tokenizer: Tokenizer, eos: int) -> Sequence:
    family = r.choices(list(MIX), list(MIX.values()))[0]
    document = families.document(r, family)
    shown = r.randint(15, 250) if family in OPEN_ENDED else r.choice([0, 0, 0, 40])
    prompt, _ = tokenizer.encode_prompt(document.prompt + document.continuation[:shown])
    tokens = [BOS, *prompt][:350]
    return Sequence(
        prompt_tokens=len(tokens),
        tokens=tokens,
        sampling=Sampling(max_tokens=r.choice(OUTPUT_TOKENS), ignore_eos=True),
        text=TextStream(tokenizer=tokenizer),
        eos=eos,
    )
