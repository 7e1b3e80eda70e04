"""Trust, end to end on the embedded cloud: every call by every role, and no secret in anything that comes out.

Not part of `make test` (it takes two to five minutes). It writes docs/security-access.csv:

    .venv/bin/pytest tests/end_to_end/trust.py
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from specdecode import names

from rehearsal.rehearse import Rehearsal
from tests.access import table, trial
from tests.access.calls import Call
from tests.access.calls_control import CALLS
from tests.access.principals import ROLES, Deployed
from tests.canaries import HUGGING_FACE, traces
from tests.conftest import STACKS
from tests.end_to_end.cloud import deployed
from tests.rehearsal.came_out import INTERNAL, came_out
from tests.templates import Templates

PAGE = Path(__file__).resolve().parents[2] / "docs" / "security-access.csv"


@dataclass(frozen=True, kw_only=True)
class Cloud:
    """The rehearsal with the deployment's names."""

    running: Rehearsal
    there: Deployed


@pytest.fixture(scope="module")
def cloud() -> Iterator[Cloud]:
    with deployed() as running:
        folder = running.deployment.assembly
        templates = Templates({stack: json.loads((folder / f"{stack}.template.json").read_text()) for stack in STACKS})
        trial.prepare(running.services)
        yield Cloud(running=running, there=trial.from_cloud(running.services, templates))


def test_a_staging_that_breaks_with_the_token_in_hand_says_nothing_of_it(cloud: Cloud) -> None:
    """The pod reads the token with its role, and the hub refuses the model or is not reached."""
    running = cloud.running
    running.services.client("secretsmanager").create_secret(Name=names.HF_TOKEN_SECRET, SecretString=HUGGING_FACE)
    gated = {"target.import_prefix": None, "target.gated": True, "target.revision": "trial", "deadlines.staging": 1}
    run = running.start("gated", {"experiment": "rehearsal", "set": gated})
    end = run.follow(running.progress)
    assert (end.status, end.error) == ("FAILED", "StagingFailed"), end.cause
    left = came_out(running)
    logs = b"".join(text for name, text in left.items() if f"runs/{run.run_id}/diagnostics/logs/" in name)
    assert b"specdecode: error 6" in logs and b"specdecode/pair-target" in logs, "the hub was not asked with the token"
    assert traces(HUGGING_FACE, left) == []
    assert {name for name, text in left.items() if "/asset." not in name and INTERNAL.search(text)} == set()


@pytest.fixture(scope="module")
def found(cloud: Cloud) -> trial.Found:
    """Comes last: finding out what the emulator enforces changes the deployment."""
    return trial.try_everything(cloud.running.services, cloud.there)


@pytest.mark.parametrize("call", [call for call in CALLS if call.request], ids=lambda call: call.what)
def test_exactly_these_roles_may(found: trial.Found, call: Call) -> None:
    assert set(ROLES) - found.refused.get(call.what, set()) == call.may


def test_the_page_says_what_was_found(found: trial.Found) -> None:
    PAGE.write_text(table.page(found), "utf-8")
    assert len(found.enforced) >= 60, "the emulator enforces less than it did"
