"""Every command line that the code prints and the pages show is one that its program reads."""

from __future__ import annotations

import pytest

from tests import printed

FOUND = sorted({(where, line) for where, line in (*printed.of_sources(), *printed.of_pages())})


def test_every_line_is_read_by_its_program() -> None:
    wrong = {f"{where}: {line}": found for where, line in FOUND if (found := list(printed.problems(line)))}
    assert not wrong, "\n".join(f"{line}\n    {found}" for line, found in wrong.items())


def test_there_are_as_many_as_there_are() -> None:
    """Guards the test above against finding nothing."""
    of_code = [where for where, _ in FOUND if where.startswith(("lambda", "constructs_lib", "assets", "stacks"))]
    assert len(of_code) > 25 and len(FOUND) - len(of_code) > 150


@pytest.mark.parametrize(
    "line",
    [
        "aws eks update-nodegroup-config --taints addOrUpdateTaints=[{key=a,value=b}]",
        "aws eks update-nodegroup-config --taints 'addOrUpdateTaints=[{name=a,value=b}]'",
        "aws eks no-such-thing --name a",
        "aws s3 ls 'unclosed",
        ".venv/bin/specdecode run qwen3-32b --wacht",
        ".venv/bin/specdecode configure nods=2",
        ".venv/bin/specdecode configure nodes=99",
        "npx cdk deploy SpecDecodeStack -c alert_mail=a@example.com",
        "npx cdk deploy AnotherStack",
        "kubectl gett pods",
        "make deplyo",
        "helm upgrade karpenter oci://public.ecr.aws/karpenter/karpenter --reuse-values",
    ],
)
def test_a_line_that_does_not_work_is_found(line: str) -> None:
    assert list(printed.problems(line))
