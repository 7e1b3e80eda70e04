"""Texts that try to be more than text, a list for each sink, and reports with them wherever text may stand."""

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

from pydantic import ValidationError
from specdecode.analysis import Comparison, compare
from specdecode.analysis.results.run_context import Accuracy, DeviceGroup, Failure
from specdecode.planning import SweepStep
from specdecode.records import ErrorKind, RequestError

from tests.specdecode.analysis.simulate import context, experiment, run

MARKUP = (
    "<script>window.pwned=1</script>",
    '"><img src=x onerror="window.pwned=2">',
    "'><svg/onload=window.pwned=3>",
    "</script><script>window.pwned=4</script>",
    "</style></title></textarea></template><b>",
    "<!--<script>",
    "<iframe srcdoc='<script>parent.pwned=5</script>'></iframe>",
    "&lt;script&gt;&#x3c;b&#x3e;",
    "{{ 7*7 }}{% raw %}{# #}",
)
MARKDOWN = (
    "[x](javascript:alert(1))",
    "![i](http://127.0.0.1:9/beacon)",
    "<http://127.0.0.1:9>",
    "www.example.com http://example.com @all #1",
    "a | b || c \\| d",
    "`code` ``` ~~~",
    "**bold** _it_ ~~no~~ $x$ :smile:",
    "\n# heading\n\n- list\n\n| a | b |\n|---|---|\n",
    "\n===\n---\n> quote\n    code\n[r]: javascript:alert(1)\n",
)
TERMINAL = (
    "\x1b[2J\x1b[31mred\x1b[0m",
    "\x1b]8;;http://127.0.0.1:9\x1b\\link\x1b]8;;\x1b\\",
    "\x1b]52;c;cHduZWQ=\x07",
    "\x9b2J\x9d52;c;cHduZWQ=\x9c",
    "\r overwritten \x08\x08\x7f",
    "\u202ereversed\u202c \u2066isolated\u2069 \u200e\u061c",
    "\u2028line\u2029paragraph\x85next\x0b\x0c",
    "\ufeffmark \U000e0041\U000e0042",
    "[bold red]markup[/bold red] [link=http://127.0.0.1:9]x[/link] :boom:",
    "nul\x00byte",
)
FORMULAS = (
    *("=cmd|'/c calc'!A0", "+1+1", "-2+3", "@SUM(A1)", "\t=1+1", "\r=1+1", " =1+1", "＝1+1", '=HYPERLINK("x";"y")'),
)
SHELL = (
    *("$(touch pwned)", "`touch pwned`", "'; touch pwned; '", '"; touch pwned; "', "\n touch pwned\n"),
    "&& touch pwned #",
)
ALL = (*MARKUP, *MARKDOWN, *TERMINAL, *FORMULAS, *SHELL)
EVERYTHING = " ".join(ALL)
BENIGN = "and some plain words"


@cache
def measured(text: str, *, ks: tuple[int, ...] = (7,)) -> Comparison:
    """A comparison of a run whose models, servers and cluster said `text` wherever they may say something."""
    tested = experiment(ks=ks, rounds=2)
    cases = tuple(case.model_copy(update={"text": text, "source": text}) for case in tested.workload.cases)
    tested = tested.model_copy(
        update={
            "title": text,
            "description": text,
            "workload": tested.workload.model_copy(update={"cases": cases}),
            "serving": tested.serving.model_copy(update={"env": {"X": text}, "extra_args": (text,)}),
        }
    )
    records = [
        record.model_copy(
            update={"output": f"{'words ' * 80}{number}{text}", "finish_reason": text, "usage_problem": text}
        )
        for number, record in enumerate(run(tested))
    ]
    error = RequestError(kind=ErrorKind.SERVER, message=text)
    records.append(records[-1].model_copy(update={"error": error}))
    records.append(records[-1].model_copy(update={"variant": text, "case": text}))
    return compare(
        experiment=tested,
        records=records,
        context=context(
            versions={"engine image": text, text: text},
            failures=(Failure(stage=text, variant=text, case=text, message=text, diagnostics=text),),
            notes=(text,),
            source=text,
            raw_prefix=text,
            accuracy=tuple(
                Accuracy(variant=name, task=text, metric=text, value=0.5, stderr=0.1) for name in ("base", "sd", text)
            ),
            device_groups=(DeviceGroup(variant="sd", devices=(text,), group=text),),
            sweep=(SweepStep(arm=None, reason=text),),
        ),
    )


@cache
def foreign(text: str) -> Comparison:
    """A report.json by somebody else: `text` is added to every string in it that the schema leaves free."""
    document = json.loads(measured(BENIGN, ks=(3, 7)).json_document())
    for value in sorted(set(_texts(document))):
        changed = _replaced(document, value, f"{value}{text}")
        try:
            Comparison.model_validate_json(json.dumps(changed))
        except ValidationError:
            continue
        document = changed
    return Comparison.model_validate_json(json.dumps(document))


def _texts(node: Any) -> Iterator[str]:
    if isinstance(node, str):
        yield node
    for inner in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from _texts(inner)


def _replaced(node: Any, old: str, new: str) -> Any:
    if isinstance(node, dict):
        return {key: _replaced(inner, old, new) for key, inner in node.items()}
    if isinstance(node, list):
        return [_replaced(inner, old, new) for inner in node]
    return new if node == old else node
