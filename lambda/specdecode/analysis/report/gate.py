"""The result of a gate: for the terminal, for a pull request (Markdown), and as JUnit's XML."""

from collections.abc import Iterator
from xml.etree import ElementTree as Xml

from specdecode.analysis.several_runs.gate import WRONG, Gate, GateCheck, GateOutcome
from specdecode.escape import counted, line, markdown

MARKS = {GateOutcome.PASSED: "✓", GateOutcome.FAILED: "✗", GateOutcome.IMPOSSIBLE: "!", GateOutcome.CANNOT_TELL: "?"}


def gate_text(found: Gate) -> str:
    """One line and its reason for each check, then what they rest on."""
    lines = []
    for check in found.checks:
        lines.append(f"{MARKS[check.outcome]} {check.outcome.value}: {_title(check)}")
        lines.append(f"    {line(_told(check))}")
    return "\n".join([*lines, "", *map(line, _basis(found)), f"Gate: {found.outcome.value}"]) + "\n"


def gate_markdown(found: Gate) -> str:
    """A heading with the outcome, a table, and what it rests on."""
    rows = [
        f"| {MARKS[check.outcome]} {check.outcome.value} | {markdown(_title(check))} | {markdown(_told(check))} |"
        for check in found.checks
    ]
    head = [f"### specdecode gate: {found.outcome.value}", "", "| | limit | found |", "|---|---|---|"]
    return "\n".join([*head, *rows, "", *(f"{markdown(text)}  " for text in _basis(found))]) + "\n"


def gate_junit(found: Gate) -> str:
    """JUnit's XML. A failed check and one of an impossible figure are failures; one that cannot be told is skipped."""
    count = {outcome: sum(check.outcome is outcome for check in found.checks) for outcome in GateOutcome}
    totals = {
        "name": "specdecode gate",
        "tests": str(len(found.checks)),
        "failures": str(count[GateOutcome.FAILED] + count[GateOutcome.IMPOSSIBLE]),
        "errors": "0",
        "skipped": str(count[GateOutcome.CANNOT_TELL]),
    }
    root = Xml.Element("testsuites", totals)
    suite = Xml.SubElement(root, "testsuite", totals)
    for check in found.checks:
        case = Xml.SubElement(suite, "testcase", {"classname": f"specdecode.gate.{check.arm}", "name": _title(check)})
        if check.outcome is GateOutcome.PASSED:
            Xml.SubElement(case, "system-out").text = line(_told(check))
        else:
            kind = "skipped" if check.outcome is GateOutcome.CANNOT_TELL else "failure"
            Xml.SubElement(case, kind, {"type": check.outcome.value, "message": line(_told(check))})
    Xml.indent(root)
    return Xml.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _title(check: GateCheck) -> str:
    return f"{check.arm}, {check.about}: {check.limit}"


def _told(check: GateCheck) -> str:
    """`1.98× (1.91–2.05): …` of a speed-up, `-5.1% (-6.7% to -3.5%): …` of a throughput; without one the reason."""
    if check.ratio is None or check.low is None or check.high is None:
        return check.reason
    figure = f"{check.ratio:.3g}× ({check.low:.3g}–{check.high:.3g})"
    if not check.speedup:
        figure = f"{check.ratio - 1:+.1%} ({check.low - 1:+.1%} to {check.high - 1:+.1%})"
    seen = ""
    if check.sees is not None:
        seen = f"; in nine of ten cases a regression of {check.sees:.1%} fails"
    if check.runs_for_limit is not None:
        runs = f"{counted(check.runs_for_limit, 'run')} a side"
        seen += f", and one of the limit's size is told from none with {runs}"
    return f"{figure}: {check.reason}{seen}"


def _basis(found: Gate) -> Iterator[str]:
    against = f" against {', '.join(found.against)}" if found.against else ""
    yield f"{', '.join(found.runs)}{against}."
    yield (
        f"The intervals of all checks ({len(found.checks)}) hold together: at most {WRONG:.0%} of such gates fail "
        "although every limit is kept, or pass although one is broken."
    )
    yield from found.notes
