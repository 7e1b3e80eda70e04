"""The lock of upstream's files: its revisions are what is deployed, and only its bytes are given out."""

import json
from pathlib import Path

import pytest

from constructs_lib.settings.versions import ADDONS, KARPENTER_CHART, NEURON_CHART
from tools.upstream.__main__ import main
from tools.upstream.lock import CHART, MANIFEST, Absent, Changed, Folder, Source, layer, read_lock, sha256

LOCK = read_lock()
DEPLOYED = {
    "karpenter": f"v{KARPENTER_CHART}",
    "karpenter-core": f"v{KARPENTER_CHART}",
    "neuron-chart": NEURON_CHART,
    **{
        source: builds.pop()
        for source, name in (("vpc-cni", "vpc-cni"), ("mountpoint-csi", "aws-mountpoint-s3-csi-driver"))
        for builds in [{of_minor[name].partition("-eksbuild")[0] for of_minor in ADDONS.values()}]
    },
}


@pytest.mark.parametrize("name", DEPLOYED)
def test_a_pin_that_moves_moves_the_lock(name: str) -> None:
    source = LOCK[name]
    assert source.revision == DEPLOYED[name] or source.why, "set revision in lock.json, then see docs/upstream.md"


@pytest.mark.parametrize("name", LOCK)
def test_every_file_has_an_address_and_a_hash(name: str) -> None:
    source = LOCK[name]
    assert source.url.startswith(("https://raw.githubusercontent.com/", "https://public.ecr.aws/v2/"))
    assert not source.url.endswith("/")
    for path, digest in source.files.items():
        assert len(bytes.fromhex(digest)) == 32
        assert not path.startswith("/")
        assert ".." not in Path(path).parts


def folder(root: Path, **files: bytes) -> Folder:
    source = Source(url="https://example.com", revision="1", files={path: sha256(data) for path, data in files.items()})
    return Folder(root, {"it": source})


def test_only_the_locks_bytes_are_given_out(tmp_path: Path) -> None:
    found = folder(tmp_path, a=b"right")
    with pytest.raises(Absent, match=r"it/a \(https://example.com at 1\) is not in"):
        found.read("it", "a")
    (tmp_path / "it").mkdir()
    (tmp_path / "it" / "a").write_bytes(b"wrong")
    with pytest.raises(Changed, match=r"lock.json has .* for 1"):
        found.read("it", "a")
    (tmp_path / "it" / "a").write_bytes(b"right")
    assert found.read("it", "a") == b"right"
    with pytest.raises(KeyError):
        found.read("it", "other")


def manifest(chart: bytes) -> bytes:
    kind = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
    layers = [{"mediaType": "other", "digest": "sha256:00"}, {"mediaType": kind, "digest": f"sha256:{sha256(chart)}"}]
    return json.dumps({"layers": layers}).encode()


def test_a_charts_hash_is_its_manifests(tmp_path: Path) -> None:
    found = folder(tmp_path, **{MANIFEST: manifest(b"chart")})
    with pytest.raises(Absent, match=r"it/manifest.json"):
        found.read("it", CHART)
    (tmp_path / "it").mkdir()
    (tmp_path / "it" / MANIFEST).write_bytes(manifest(b"chart"))
    (tmp_path / "it" / CHART).write_bytes(b"another")
    with pytest.raises(Changed):
        found.read("it", CHART)
    (tmp_path / "it" / CHART).write_bytes(b"chart")
    assert found.read("it", CHART) == b"chart"


def test_a_manifest_without_a_chart_is_named() -> None:
    with pytest.raises(ValueError, match="no layer"):
        layer(b'{"layers": []}')


@pytest.mark.parametrize("make", [True, False])
def test_a_folder_with_nothing_in_it_is_wrong_use(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], make: bool
) -> None:
    given = tmp_path / "given"
    if make:
        given.mkdir()
    assert main(["--folder", str(given)]) == 2
    said = capsys.readouterr().err
    assert ("has none of the files" in said and "karpenter/charts" in said) if make else "is no folder" in said
