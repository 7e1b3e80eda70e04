"""What a deployment keeps: what counts as lost, and the words of a refusal."""

import json
import re
from pathlib import Path

import pytest
from specdecode.experiment import kept

DEPLOYED = {"region": "us-east-2", "alert_email": "you@example.com", "nodes": "2"}


@pytest.mark.parametrize(
    ("wanted", "replaces", "lost"),
    [
        (DEPLOYED, {}, []), ({**DEPLOYED, "schedule": "block"}, {}, []),
        ({"region": "us-east-2", "nodes": "2"}, {}, ["alert_email"]), ({**DEPLOYED, "nodes": "3"}, {}, ["nodes"]),
        ({**DEPLOYED, "nodes": "3"}, {"nodes": "2"}, []),
        ({"region": "us-east-2", "nodes": "2"}, {"alert_email": "you@example.com"}, []),
        ({**DEPLOYED, "nodes": "3"}, {"nodes": "1"}, ["nodes"]),
    ],
    ids=["same", "more", "dropped", "changed", "meant", "dropped on purpose", "somebody deployed meanwhile"],
)  # fmt: skip
def test_what_is_lost(wanted: dict[str, str], replaces: dict[str, str], lost: list[str]) -> None:
    assert [each.key for each in kept.changed(DEPLOYED, wanted, replaces)] == lost
    said = kept.refusal(DEPLOYED, wanted, replaces)
    assert (said is None) == (not lost)
    for key in lost:
        assert said is not None and f"{key}: {DEPLOYED[key]} -> {wanted.get(key, 'none')}" in said
        assert f"{key}={wanted.get(key, '')}" in re.findall(r"`([^`]*)`", said)[2]


def test_a_refusal_keeps_what_the_line_adds_and_is_short_with_a_certificate() -> None:
    said = kept.refusal({"cluster_ca": "A" * 1500}, {"schedule": "cron(0 1 ? * SAT *)"}, {})
    assert said is not None
    assert f"`{kept.CONFIGURE} 'schedule=cron(0 1 ? * SAT *)'`, then `{kept.DEPLOY}`" in said
    assert len(said) < 1000, "CloudFormation shows a thousand characters"


def test_the_file_comes_back_and_a_broken_one_says_what_to_do(tmp_path: Path) -> None:
    assert kept.read(tmp_path) == kept.read(None) == kept.KeptSettings()
    whole = kept.KeptSettings(settings=DEPLOYED, replaces={"nodes": "1"})
    kept.write(tmp_path, whole)
    assert kept.read(tmp_path) == whole and [path.name for path in tmp_path.iterdir()] == [kept.FILE]
    for text in ("{", json.dumps({"settings": {"nodes": 2}}), "\udcff"):
        (tmp_path / kept.FILE).write_text(text, errors="surrogateescape")
        with pytest.raises(kept.BadFile, match="move it away"):
            kept.read(tmp_path)
