"""Commands: `target` and `draft` train a model folder, `grow` adds layers, `greedy` writes outputs of the target."""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file

from rehearsal.engine.config import ModelFolder, read_model_folder
from rehearsal.engine.tokenizer import Tokenizer
from rehearsal.engine.training.corpus import documents
from rehearsal.engine.training.data import Batch, document_batch, greedy_batch, read_greedy
from rehearsal.engine.training.families import Families
from rehearsal.engine.training.greedy import generate
from rehearsal.engine.training.network import Decoder, Optimizer, save

SHORT, LONG = 320, 1000
"""Lengths of training rows; one step in LONG_EVERY is long."""
LONG_EVERY = 5
TOKENS_PER_STEP = 3200
WARM_UP_STEPS = 20
REPORT_EVERY = 20


def main() -> None:
    arguments = _arguments()
    families = Families(documents()[0])
    torch.manual_seed(arguments.seed)
    if arguments.command == "greedy":
        count = generate(
            arguments.output,
            target=arguments.target,
            draft=arguments.draft,
            families=families,
            seed=arguments.seed,
            seconds=arguments.seconds,
        )
        print(f"{count} tokens generated")
        return
    folder = read_model_folder(arguments.folder)
    if arguments.command == "grow":
        _grow(folder, arguments.layers)
        return
    torch.set_num_threads(arguments.threads)
    tokenizer = Tokenizer(folder.tokenizer)
    r = random.Random(arguments.seed)
    model = Decoder(folder.config)
    if not arguments.fresh:
        model.load_state_dict(load_file(folder.weights))
    outputs = read_greedy(arguments.greedy) if arguments.command == "draft" else []

    def draw(step: int) -> Batch:
        length = LONG if step % LONG_EVERY == LONG_EVERY - 1 else SHORT
        if r.random() < arguments.own_share:
            return greedy_batch(r, outputs, rows=TOKENS_PER_STEP // SHORT)
        return document_batch(r, families, tokenizer, rows=max(1, TOKENS_PER_STEP // length), length=length)

    _train(model, draw, arguments, checkpoint=lambda: save(model, folder))


def _grow(folder: ModelFolder, layers: int) -> None:
    """Insert layers that change nothing until they are trained."""
    model = Decoder(folder.config)
    model.load_state_dict(load_file(folder.weights))
    model.insert_layers(layers)
    save(model, folder)
    path = folder.path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"num_hidden_layers": layers}, indent=2) + "\n")


def _train(
    model: Decoder, draw: Callable[[int], Batch], arguments: argparse.Namespace, *, checkpoint: Callable[[], None]
) -> None:
    """Linear decay of the learning rates to zero after a short warm-up."""
    optimizer = Optimizer(model, matrix_rate=arguments.matrix_rate, other_rate=arguments.other_rate)
    started, tokens, average = time.monotonic(), 0, None
    for step in range(arguments.steps):
        batch = draw(step)
        logits = model(batch.ids[:, :-1])
        losses = F.cross_entropy(logits.flatten(0, 1), batch.ids[:, 1:].flatten(), reduction="none")
        loss = (losses * batch.weights.flatten()).sum() / batch.weights.sum()
        loss.backward()
        optimizer.step(min(1.0, (step + 1) / WARM_UP_STEPS) * (1 - step / arguments.steps))
        tokens += batch.weights.numel()
        average = loss.item() if average is None else 0.95 * average + 0.05 * loss.item()
        if (step + 1) % REPORT_EVERY == 0:
            seconds = time.monotonic() - started
            print(f"step {step + 1} loss {average:.3f} {tokens / seconds:.0f} tokens/s {seconds:.0f} s", flush=True)
            checkpoint()
    checkpoint()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m rehearsal.engine.training", description=__doc__)
    parser.set_defaults(seed=0)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("target", "draft"):
        command = commands.add_parser(name)
        command.add_argument("folder", type=Path, help="model folder; its config.json says the shape")
        command.add_argument("--fresh", action="store_true", help="start from random weights, not from the folder's")
        command.add_argument("--steps", type=int, required=True, help=f"of {TOKENS_PER_STEP} tokens each")
        command.add_argument("--matrix-rate", type=float, default=0.02, help="Muon's learning rate")
        command.add_argument("--other-rate", type=float, default=0.006, help="AdamW's learning rate")
        command.add_argument("--threads", type=int, default=2)
        command.add_argument("--seed", type=int, default=0)
        command.set_defaults(own_share=0.0)
        if name == "draft":
            command.add_argument("--greedy", type=Path, nargs="+", required=True, help="files of the command `greedy`")
            command.add_argument("--own-share", type=float, default=0.7, help="share of greedy outputs")
    command = commands.add_parser("grow")
    command.add_argument("folder", type=Path)
    command.add_argument("--layers", type=int, required=True, help="layers that it has afterwards")
    command = commands.add_parser("greedy")
    command.add_argument("output", type=Path, help=".npz to write")
    command.add_argument("--target", type=Path, required=True)
    command.add_argument("--draft", type=Path, required=True, help="any draft model: it changes the speed only")
    command.add_argument("--seconds", type=float, required=True)
    command.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


if __name__ == "__main__":
    main()
