"""`specdecode evidence`: rows go from one user to another, and bad ones are refused."""

from pathlib import Path

import pytest
import yaml
from specdecode.cli import app
from specdecode.speculation.step_cost import published
from typer.testing import CliRunner, Result


def evidence(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["evidence", *arguments])


def test_a_row_that_somebody_gave_is_listed_and_used_once(tmp_path: Path) -> None:
    given = tmp_path / "theirs.yaml"
    row = published()[0].model_copy(update={"source": "a colleague's run", "k": 5, "tokens_per_step": 3.9})
    given.write_text(yaml.safe_dump([row.model_dump(mode="json")]))
    folder = str(tmp_path / "results")
    assert "1 rows added, 0 were there" in evidence("add", str(given), "--runs", folder).output
    assert "0 rows added, 1 were there" in evidence("add", str(given), "--runs", folder).output
    listed = evidence("list", "--runs", folder).output
    assert listed.count("a colleague's run") == 1 and "bounded" in listed
    assert yaml.safe_load(evidence("export", "--runs", folder).output) == [], "only your own runs are yours to share"


@pytest.mark.parametrize("text", ["[{k: 3}]", "{", "- 1", "[{prompt: secret}]"])
def test_what_are_no_rows_is_refused_in_words(tmp_path: Path, text: str) -> None:
    (tmp_path / "bad.yaml").write_text(text)
    result = evidence("add", str(tmp_path / "bad.yaml"), "--runs", str(tmp_path / "results"))
    assert result.exit_code == 2 and "bad.yaml" in result.output and "Traceback" not in result.output
    assert not (tmp_path / "results").exists()
