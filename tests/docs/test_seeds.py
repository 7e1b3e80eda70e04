"""Every step of the documents that the project began with has a row, and the tests that a row names exist."""

import re

import pytest

from tests.docs.markdown import ROOT

PAGE = (ROOT / "docs" / "seeds.md").read_text("utf-8")
STEPS = {
    "Tutorial: speculative decoding": "Environment setup|Scenario 1|Application startup complete|Test the endpoint|"
    "LLMPerf|shorter outputs|Scenario 2|Performance comparison",
    "Article": "vocabulary|two knobs|Figure 1|60 % lower|k from 5 to 15|four modes|two services|Figure 2|temperature 0|"
    "structured and open-ended|Figure 3|figure 4|figure 5|15 ms|TTFT|CloudWatch|Reproducing",
    "Sample": "DRA|storage|Experiment setup|excels|Setup|service accounts|Compile|Deploy both|benchmark's pod|Metrics|"
    "Tuning|Cleanup",
    "Tutorial: Llama": "Prerequisites|Scenario 1|Scenario 2|FP8|buckets|skip-compile|LLMPerf|percentiles",
}
"""Document -> what its headings and figures are about."""


@pytest.mark.parametrize("document", STEPS)
def test_each_step_has_a_row(document: str) -> None:
    (part,) = [text for text in PAGE.split("\n## ") if text.startswith(document)]
    first = [row.split("|")[1] for row in part.splitlines() if row.startswith("| ")]
    assert [step for step in STEPS[document].split("|") if not any(step in cell for cell in first)] == []


def test_the_tests_that_rows_name_exist() -> None:
    rows = [row for row in PAGE.splitlines() if row.startswith("| ") and "tested by" not in row]
    assert len(rows) >= 43
    for row in rows:
        named = re.findall(r"`(tests/[^`]+)`", row.split("|")[3])
        assert named and all((ROOT / path).exists() for path in named), row
