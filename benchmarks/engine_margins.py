"""Can rounding change a greedy output of the embedded engine? `python benchmarks/engine_margins.py`

A token is verified in another matrix shape (k+1 rows a sequence, several sequences) than it is decoded in (one), and
BLAS may then sum in another order. Printed: the largest difference of a logit between both ways, and the smallest
distance between the best and the second-best token, over the greedy outputs of the benchmark's prompts. As long as the
distance is far larger than the difference, both ways choose the same tokens.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from engine import OPEN_ENDED, STRUCTURED  # noqa: E402

from rehearsal.engine.artifact import CompiledArrays  # noqa: E402
from rehearsal.engine.config import read_model_folder  # noqa: E402
from rehearsal.engine.forward import Cache, NeuralNetwork, Segment  # noqa: E402
from rehearsal.engine.packing import pack_weights, plan_tables  # noqa: E402
from rehearsal.engine.tokenizer import Tokenizer  # noqa: E402

TOKENS, ROWS, BATCH, WINDOW = 256, 8, 4, 512


def main() -> None:
    folder = read_model_folder(ROOT / "rehearsal" / "engine" / "weights" / "pair-target")
    tables = plan_tables(folder.config, positions=WINDOW)
    network = NeuralNetwork(folder.config, CompiledArrays(weights=pack_weights(folder), tables=tables))
    tokenizer = Tokenizer(folder.tokenizer)
    difference, distance, positions = 0.0, float("inf"), 0
    for prompt in (STRUCTURED | OPEN_ENDED).values():
        tokens = [folder.config.bos_token_id, *tokenizer.encode_prompt(prompt)[0]]
        first = len(tokens)
        stepped = []
        cache, start = Cache(folder.config, positions=WINDOW), 0
        while len(tokens) < first + TOKENS:
            logits = network.forward([Segment(cache=cache, tokens=tokens, start=start, wanted=1)])[0][0]
            stepped.append(logits.copy())
            start = len(tokens)
            tokens.append(int(logits.argmax()))
            best = logits[tokens[-1]]
            logits[tokens[-1]] = -float("inf")
            distance = min(distance, float(best - logits.max()))
            positions += 1
        caches = [Cache(folder.config, positions=WINDOW) for _ in range(BATCH)]
        network.forward([Segment(cache=c, tokens=tokens[:first], start=0, wanted=1) for c in caches])
        for start in range(first, first + TOKENS - ROWS, ROWS):
            upto = tokens[: start + ROWS]
            batch = network.forward([Segment(cache=c, tokens=upto, start=start, wanted=ROWS) for c in caches])
            for row in range(ROWS):
                expected = stepped[start - first + row + 1]
                difference = max(difference, *(float(abs(logits[row] - expected).max()) for logits in batch))
    print(f"{positions} positions: smallest distance {distance:.1e}, largest difference {difference:.1e}")


if __name__ == "__main__":
    main()
