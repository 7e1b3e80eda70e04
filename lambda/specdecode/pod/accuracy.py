"""Measure whether the arms still answer correctly: `python3 -m specdecode.pod.accuracy --model M --arm base=http://…
…`.

Runs lm-eval (pinned, in an environment of its own) arm after arm: gsm8k, 50 samples, no examples, temperature 0.
It uses the completions endpoint, so that no chat template and no thinking mode makes the arms differ. Each arm's result
file is uploaded as it is.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from specdecode import names
from specdecode.exit_codes import Exit
from specdecode.pod.bucket import Bucket
from specdecode.pod.program import Parser, PodArm, PodError, add_arms, arms_of, run, say

LM_EVAL = "lm-eval[api]==0.4.13"
TASK = "gsm8k"
SAMPLES = 50


def main(arguments: Sequence[str]) -> None:
    """Evaluate every arm and upload `<prefix><arm>.json`."""
    parser = Parser(description=__doc__)
    parser.add_argument("--bucket", required=True)
    parser.add_argument("--prefix", required=True, help="folder of the results, runs/<run id>/accuracy/")
    parser.add_argument("--concurrency", type=int, default=1)
    add_arms(parser)
    options = parser.parse_args(arguments)
    bucket, tool = Bucket(options.bucket), install(Path("lm-eval"))
    for name, arm in arms_of(options).items():
        result = evaluate(tool, arm, Path("accuracy") / name, concurrency=options.concurrency)
        bucket.upload(result, f"{options.prefix}{name}.json")
        say(f"{name}: {TASK} measured")


def install(folder: Path) -> Path:
    """The lm_eval command of a new virtual environment in `folder`."""
    _run([sys.executable, "-m", "venv", str(folder)], Exit.UNAVAILABLE)
    _run([str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", LM_EVAL], Exit.UNAVAILABLE)
    return folder / "bin" / "lm_eval"


def evaluate(tool: Path, arm: PodArm, folder: Path, *, concurrency: int) -> Path:
    """Run lm-eval against one arm and return its result file. The key is in the environment, under OpenAI's name."""
    arguments = {
        "model": arm.model,
        "base_url": f"{arm.url.rstrip('/').removesuffix('/v1')}/v1/completions",
        "num_concurrent": concurrency,
        "max_retries": 3,
        "tokenized_requests": False,
        "tokenizer_backend": None,
    }
    command = [str(tool), "--model", "local-completions", "--tasks", TASK, "--num_fewshot", "0"]
    command += ["--limit", str(SAMPLES), "--gen_kwargs", "temperature=0", "--output_path", str(folder)]
    command += ["--model_args", ",".join(f"{key}={value}" for key, value in arguments.items())]
    _run(command, Exit.BAD_ANSWER, **({names.API_KEY_VARIABLE: arm.api_key} if arm.api_key else {}))
    results = sorted(folder.rglob("results*.json"))
    if not results:
        raise PodError(Exit.BAD_ANSWER, f"lm-eval wrote no result for {arm.url}")
    return results[-1]


def _run(command: Sequence[str], code: Exit, **more: str) -> None:
    """Run a command without the bundle on its path and with `more` in its environment; PodError if it fails."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | more
    ended = subprocess.run(command, env=env, check=False)
    if ended.returncode:
        raise PodError(code, f"{' '.join(command[:4])} … ended with {ended.returncode}; its output is above")


if __name__ == "__main__":
    run(main)
