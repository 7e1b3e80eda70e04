"""`specdecode configure`: what the file holds after it, beside what is deployed."""

from __future__ import annotations

from pathlib import Path

import pytest
from specdecode.cli import app, configure
from specdecode.cli.preflight import account
from specdecode.experiment import kept
from typer.testing import CliRunner

HERE = {"region": "us-east-2"}
DEPLOYED = {**HERE, "alert_email": "you@example.com", "nodes": "2"}


@pytest.fixture(autouse=True)
def here(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (checkout / "cdk.json").write_text("{}")
    monkeypatch.setenv("AWS_REGION", "us-east-2")


def configured(
    monkeypatch: pytest.MonkeyPatch, deployed: dict[str, dict[str, str]] | None, *given: str, code: int = 0
) -> str:
    """What the command prints. `deployed`: region -> settings of the stack there. None: nobody can look."""
    monkeypatch.setattr(
        configure, "_deployed", lambda region, _: None if deployed is None else deployed.get(region, {})
    )
    monkeypatch.setattr(configure, "_stands", lambda region, _: None if deployed is None else region in deployed)
    ended = CliRunner().invoke(app, ["configure", *given])
    assert ended.exit_code == code, ended.output
    return ended.output


@pytest.mark.parametrize(
    ("before", "deployed", "given", "settings", "replaces"),
    [
        ({}, {}, ["alert_email=you@example.com"], {**HERE, "alert_email": "you@example.com"}, {}),
        ({}, DEPLOYED, [], DEPLOYED, {}),
        ({}, DEPLOYED, ["longest_run_hours=60"], {**DEPLOYED, "longest_run_hours": "60"}, {}),
        ({}, DEPLOYED, ["nodes=4"], {**DEPLOYED, "nodes": "4"}, {"nodes": "2"}),
        ({}, DEPLOYED, ["nodes="], {**HERE, "alert_email": "you@example.com"}, {"nodes": "2"}),
        ({}, DEPLOYED, ["nodes=1"], {**HERE, "alert_email": "you@example.com"}, {"nodes": "2"}),
        ({**HERE, "nodes": "3"}, DEPLOYED, [], DEPLOYED, {}),
        ({}, None, ["nodes=4"], {**HERE, "nodes": "4"}, {}),
    ],
    ids=["first", "taken over", "one more", "changed", "taken back", "the default", "stale file", "cannot look"],
)
def test_the_file_has_all_that_is_deployed_and_what_is_changed_on_purpose(
    before: dict[str, str],
    deployed: dict[str, str] | None,
    given: list[str],
    settings: dict[str, str],
    replaces: dict[str, str],
    checkout: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if before:
        kept.write(checkout, kept.KeptSettings(settings=before))
    said = configured(monkeypatch, deployed if deployed is None else {"us-east-2": deployed}, *given)
    assert kept.read(checkout) == kept.KeptSettings(settings=settings, replaces=replaces)
    for key, value in replaces.items():
        assert f"the next deployment changes {key}: {value} -> {settings.get(key, 'none')}" in said
    assert ("nobody is told" in said) == ("alert_email" not in settings) and kept.DEPLOY in said


def test_a_change_that_is_not_deployed_yet_is_kept(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = {"us-east-2": DEPLOYED}
    configured(monkeypatch, there, "nodes=4", "alert_email=")
    configured(monkeypatch, there, "longest_run_hours=60")
    expected = {**HERE, "nodes": "4", "longest_run_hours": "60"}
    assert kept.read(checkout).settings == expected
    assert kept.read(checkout).replaces == {"nodes": "2", "alert_email": "you@example.com"}


def test_what_is_given_while_nobody_can_look_is_kept(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept.write(checkout, kept.KeptSettings(settings=DEPLOYED))
    configured(monkeypatch, None, "alert_email=new@example.com")
    configured(monkeypatch, None, "longest_run_hours=60")
    configured(monkeypatch, {"us-east-2": DEPLOYED}, "nodes=3")
    expected = {"alert_email": "new@example.com", "longest_run_hours": "60", "nodes": "3"}
    assert expected.items() <= kept.read(checkout).settings.items()


def test_a_region_is_not_left_while_nobody_can_look(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept.write(checkout, kept.KeptSettings(settings=DEPLOYED))
    given = ("region=ap-southeast-4", "price_per_node_hour=36")
    assert "it would go on, and cost" in configured(monkeypatch, None, *given, code=3)


def test_a_folder_or_a_dangling_link_is_no_absence(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (checkout / kept.FILE).symlink_to("nowhere")
    assert "cannot be read" in configured(monkeypatch, {}, "nodes=2", code=2)
    (checkout / kept.FILE).unlink()
    (checkout / kept.FILE).mkdir()
    assert "cannot be read" in configured(monkeypatch, {}, "nodes=2", code=2)


@pytest.mark.parametrize(
    ("given", "code", "says"),
    [
        (["nodes=99"], 2, "nodes: must be 16 or less"),
        (["nodes"], 2, "write settings as KEY=VALUE, not nodes"),
        ([""], 2, "write settings as KEY=VALUE, not '' (docs"),
        (["nodes=1", "nodes=2"], 2, "two values for one setting: nodes=1 and another one"),
        (["cluster_name=other"], 2, "cluster_name: none -> other"),
        (["region=ap-southeast-4", "price_per_node_hour=2"], 3, "the deployment stands in us-east-2; destroy it first"),
    ],
)
def test_what_cannot_be_kept_is_refused_and_the_file_stays(
    given: list[str], code: int, says: str, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.write(checkout, kept.KeptSettings(settings=DEPLOYED))
    assert says in configured(monkeypatch, {"us-east-2": DEPLOYED}, *given, code=code)
    assert kept.read(checkout) == kept.KeptSettings(settings=DEPLOYED)


def test_what_cdk_json_says_otherwise_is_refused(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """~/.cdk.json, which a test can write, is read as cdk.json is."""
    monkeypatch.setenv("HOME", str(checkout))
    (checkout / ".cdk.json").write_text('{"context": {"nodes": 2}}')
    for given, keeps in (("nodes=3", "3"), ("nodes=1", "1"), ("nodes=", "nothing")):
        said = configured(monkeypatch, {}, given, code=2)
        assert f"nodes: 2 is given (-c, cdk.json or ~/.cdk.json), and deployment.json keeps {keeps}; leave" in said
        assert not (checkout / kept.FILE).exists()
    asked: list[list[str]] = []
    monkeypatch.setattr(account, "facts_of_checkout", asked.append)
    for settings in ({"region": "us-east-2"}, {"nodes": "3"}):
        kept.write(checkout, kept.KeptSettings(settings=settings))
        account.refuse_contradictions()
    assert asked == [[]], "only a setting of both files is looked at"
