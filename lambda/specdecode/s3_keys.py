"""Where things lie in the artifact bucket. Keys only; nothing here talks to S3.

    models/<slug>@<revision>/   compiled/<fingerprint>/   imports/<name>/   prompts/<set>@<sha256>.jsonl
    prompts/counted/<sha256>.json
    runs/<run id>/{experiment.yaml, plan.json, state.json, prompts/…,
                   raw/<variant>/<case>.jsonl, raw/@clients/…, servers.json, conversations/<case>.json, llmperf/…,
                   accuracy/<variant>.json, report.html, report.md, report.json, diagnostics/…}
    asks/<run id>/<question>/{question.json, 0000.json, …}     to a held arm, and its answer in parts
    state/capacity.json         who holds the node, who waits
    state/endpoints.json        who loads servers that already run, who waits
    state/damaged/…             a queue's document that could not be read, as it was
    state/engines/<sha256>.json a kind of arm that a server of this bucket's runs has answered for, once
    state/scheduled/<time>      which run a schedule's start of that time has begun

A folder under models/ and compiled/ counts only with its COMPLETE.json (files, sizes, SHA-256), written last.
"""

import json
import re
from datetime import UTC, datetime
from hashlib import sha256

COMPLETE = "COMPLETE.json"
CAPACITY_KEY = "state/capacity.json"
ENDPOINTS_KEY = "state/endpoints.json"
DAMAGED = "state/damaged/"
ENGINES = "state/engines/"
SCHEDULED = "state/scheduled/"


def slug(model_id: str) -> str:
    """`Qwen/Qwen3-32B` -> `Qwen--Qwen3-32B`: one path segment, as the Hugging Face cache writes it."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", model_id.replace("/", "--"))


RESCALED, IMPORTED = "-neuron-fp8", "-import-"
"""Suffix of a model's prefix, after its revision. No revision may end with it."""


def model_prefix(model_id: str, revision: str, *, rescaled: bool = False, imported: str | None = None) -> str:
    """Weights of a model. Rescaled to Neuron's FP8, or `imported` from a prefix of the bucket, they are other bytes: no
    upload replaces the hub's weights, or another upload's.
    """
    origin = f"{IMPORTED}{sha256(imported.encode()).hexdigest()[:8]}" if imported else ""
    return f"models/{slug(model_id)}@{revision}{origin}{RESCALED if rescaled else ''}/"


def compiled_prefix(fingerprint: str) -> str:
    return f"compiled/{fingerprint}/"


NOTES = "raw/@clients/"
"""Where the clients of a level tell each other when to begin (benchmark/clients.py). No arm's name has an @."""
PROMPTS = "prompts/"


def prompts_key(name: str, sha256: str) -> str:
    """Key of a set of prompts: its file unchanged, in any format, under the hash of its bytes."""
    return f"{PROMPTS}{name}@{sha256}.jsonl"


def counted_key(digest: str) -> str:
    """Key of the lengths of prompts in tokens, under the hash of all that they depend on. They are counted once."""
    return f"{PROMPTS}counted/{digest}.json"


ASKS = "asks/"
"""Questions and answers. The bucket forgets what is here after a day."""
QUESTION, END = "question.json", "end.json"


def asks_prefix(run_id: str) -> str:
    return f"{ASKS}{run_id}/"


def part_key(prefix: str, number: int) -> str:
    """Key of a part of an answer, below the folder of its question."""
    return f"{prefix}{number:04}.json"


def run_prefix(run_id: str) -> str:
    return f"runs/{run_id}/"


def run_key(run_id: str, *parts: str) -> str:
    """Key of a file of a run: `run_key(r, "raw", "base", "a.jsonl")`."""
    return run_prefix(run_id) + "/".join(parts)


def served_key(*kind: str) -> str:
    """Key of a kind of arm that was served: image, node, family, weights, method. Only that it exists counts."""
    return f"{ENGINES}{sha256(json.dumps(kind).encode()).hexdigest()}.json"


def scheduled_key(time: datetime) -> str:
    """Key of the start of a schedule: `state/scheduled/2026-11-28T00:00:00+00:00`. It holds a run's id."""
    return f"{SCHEDULED}{time.astimezone(UTC).isoformat()}"


def damaged_key(key: str, etag: str) -> str:
    """Key of a damaged document: `state/capacity.json` -> `state/damaged/capacity-<etag>.json`."""
    name = key.rpartition("/")[2].removesuffix(".json")
    return f"{DAMAGED}{name}-{etag}.json"
