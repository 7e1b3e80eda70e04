"""What a deployment keeps: what counts as lost, and the words of a refusal."""

import json
import re
from pathlib import Path

import pytest
from specdecode.experiment import kept

ROOT = Path(__file__).resolve().parents[3]
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


def test_what_stays_has_the_line_that_keeps_it_and_fits_into_what_cloudformation_shows() -> None:
    deployed = {**dict.fromkeys(kept.NODES_FROM, "a" * 40), "cluster_ca": "A" * 1500, "bucket_encryption": "kms"}
    wanted = {"region": "us-east-2", "existing_cluster": "b", "karpenter_node_role": "a" * 40}
    said = kept.refusal(deployed, wanted, deployed)
    assert said is not None and len(said) < 1000, "CloudFormation shows a thousand characters"
    keeps = {"cluster_name": "a" * 40, "existing_cluster": "a" * 40, "existing_node_group": "a" * 40}
    assert kept.deploy_with({**keeps, "bucket_encryption": "kms"}) in said
    assert kept.refusal({}, wanted, {}) is None
    page, _, heading = kept.STAYS.partition("#")
    assert f"## {heading.replace('-', ' ').capitalize()}" in (ROOT / page).read_text()


def test_the_file_comes_back_and_a_broken_one_says_what_to_do(tmp_path: Path) -> None:
    assert kept.read(tmp_path) == kept.read(None) == kept.KeptSettings()
    whole = kept.KeptSettings(settings=DEPLOYED, replaces={"nodes": "1"})
    kept.write(tmp_path, whole)
    assert kept.read(tmp_path) == whole and [path.name for path in tmp_path.iterdir()] == [kept.FILE]
    for text in ("{", json.dumps({"settings": {"nodes": 2}}), "\udcff"):
        (tmp_path / kept.FILE).write_text(text, errors="surrogateescape")
        with pytest.raises(kept.BadFile, match="move it away"):
            kept.read(tmp_path)
