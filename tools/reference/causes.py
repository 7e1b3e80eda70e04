"""docs/reference/causes.md: the causes of failed runs that `specdecode diagnose` recognizes."""

from __future__ import annotations

from specdecode.assets import assets_dir
from specdecode.kubernetes.diagnosis import load_table

from tools.reference import page, table

INTRODUCTION = """When a run has failed, its error, the state of its pods and their logs are searched for patterns of
these causes, in this order; the first that is found is reported, with what it found in place of {...}. An error that is
none of them is reported as it is. The patterns are in `assets/diagnosis.yaml`."""


def render() -> str:
    """The page."""
    rows = [
        (f"`{row.name}`", f"{row.cause} {row.reason}".strip(), row.fix)
        for row in load_table(assets_dir() / "diagnosis.yaml").causes
    ]
    return page(
        "Known causes of a failed run",
        INTRODUCTION,
        table(("name", "cause", "what to do"), rows),
        "How to go about it: [when a run fails](../how-to/when-a-run-fails.md).",
    )
