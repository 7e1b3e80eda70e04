"""docs/reference/printed-lines.md: how many command lines the project prints and shows, and what has read each."""

from tests import printed
from tools.reference import page, table

INTRODUCTION = """\
Every command line that a message prints or a page shows goes through what reads it when a user types it. A line that
is refused there fails a test (`tests/docs/test_printed.py`). Nothing is executed by that. Each line is counted once for
every place where it stands, and so is each part of a line with `|` or `&&`. What a message fills in is one word."""

BEYOND = """\
Beyond their parsers:

- Every line of kubectl is run with the real kubectl (`tests/rehearsal/kubernetes/test_runbook.py`).
- The Helm lines for a Karpenter of yours are rendered with the charts 1.8.1, 1.9.2, 1.13.1 and 1.14.1 of upstream, and
  applied (`tests/upstream/against_karpenter_chart.py`, a part of `make upstream`).
- Every documented later deployment is deployed in the embedded cloud (`tests/end_to_end/settings.py`, in the suite
  `redeploy`)."""


def render() -> str:
    """The judge itself counts."""
    counts = printed.counted()
    rows = [(f"`{name}`", str(code), str(pages), printed.READERS[name]) for name, (code, pages) in counts.items()]
    code, pages = (sum(each[side] for each in counts.values()) for side in (0, 1))
    rows.append(("all", str(code), str(pages), "bash reads the words of each first"))
    return page(
        "Printed command lines",
        INTRODUCTION,
        table(("program", "printed by the code", "shown on pages", "read by"), rows),
        BEYOND,
    )
