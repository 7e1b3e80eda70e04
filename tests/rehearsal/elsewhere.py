"""Servers that already run, beside a rehearsal: two engines that belong to no run. One of them needs a key."""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from specdecode import names

from rehearsal.execution import Run
from rehearsal.rehearse import Rehearsal
from tests.rehearsal.engine.conftest import DRAFT, serve

KEY = "canary-of-a-server"


@contextmanager
def servers(running: Rehearsal) -> Iterator[dict[str, Any]]:
    """Start both and store the key in the cluster. Returns the experiment that compares them."""
    config = json.dumps({"model": str(DRAFT), "num_speculative_tokens": 5})
    with serve("--api-key", KEY) as base, serve("--speculative-config", config) as sd:
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "endpoint-base"},
            "data": {"api-key": base64.b64encode(KEY.encode()).decode()},
        }
        running.kubernetes.request("POST", f"/api/v1/namespaces/{names.NAMESPACE}/secrets", secret)
        yield experiment(f"http://127.0.0.1:{base.port}", f"http://127.0.0.1:{sd.port}/v1")


def experiment(base: str, sd: str) -> dict[str, Any]:
    return {
        "name": "elsewhere",
        "title": "Two servers that already run",
        "target": {"id": "pair"},
        "variants": [
            {"name": "base", "label": "Base", "endpoint": base, "api_key_secret": "endpoint-base"},
            {"name": "sd", "label": "SD", "compare_to": "base", "endpoint": sd, "price_per_hour": 10,
             "speculation": {"draft": {"id": "pair-draft"}, "num_speculative_tokens": 5}},
        ],
        "workload": {
            "cases": ["repeat-line"], "endpoint": "completions", "input_tokens": 24, "output_tokens": 24, "requests": 4,
            "ignore_eos": True,
        },
    }  # fmt: skip


def states(run: Run) -> list[str]:
    """Every state that was entered, but for the question about waves."""
    events = run.deployment.events(run.arn, newest=500)
    entered = [event.get("stateEnteredEventDetails", {}).get("name") for event in events]
    return list(dict.fromkeys(name for name in entered if name and not name.endswith("?")))
