"""Every part has a licence that is allowed, and the lists of parts are current."""

import json
from collections.abc import Iterator
from importlib.metadata import Distribution
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from specdecode import __version__

from tools.supply import licences_page, sbom
from tools.supply.inventory import BILL, POLICY, SPDX, Part, UnknownLicence, allowed, inventory, licence_of
from tools.supply.locks import ENVIRONMENT, ROOT, locked

STALE = "make lock"


@pytest.fixture(scope="module")
def parts() -> tuple[Part, ...]:
    return inventory()


def vendored_files() -> Iterator[Path]:
    """What was copied into the repository and says whose it is."""
    yield from (path for path in (ROOT / "assets" / "report" / "vendor").iterdir() if path.suffix == ".js")
    yield ROOT / "rehearsal" / "kubernetes" / "schemas" / "karpenter.yaml"
    yield from (ROOT / "rehearsal" / "engine" / "weights").rglob("*.safetensors")


def test_every_licence_is_allowed_or_has_its_reason(parts: tuple[Part, ...]) -> None:
    refused = {part.name: part.licence for part in parts if not allowed(part.licence)}
    assert set(refused) == set(POLICY["exceptions"]), f"tools/supply/policy.yaml: {refused}"


def test_every_locked_package_and_every_vendored_file_is_a_part(parts: tuple[Part, ...]) -> None:
    pins = {(name, version) for lock in ENVIRONMENT for name, (version, _) in locked(lock).items()}
    assert {(part.name, part.version) for part in parts if part.purl.startswith("pkg:pypi/")} == pins
    files = {path for part in parts for path in part.files}
    assert set(vendored_files()) <= files
    assert all(path.is_file() for path in files)


def test_what_lies_here_is_in_the_notice_with_its_licence() -> None:
    begins = {"ISC": "Permission to use", "Apache-2.0": "Apache License", "PSF-2.0": "PYTHON SOFTWARE FOUNDATION"}
    notice = (ROOT / "NOTICE").read_text()
    for entry in POLICY["vendored"]:
        assert begins[entry["licence"]] in (ROOT / entry["notice"]).read_text()
        assert entry["notice"] in notice
        assert [name for name in entry["files"] if str(Path(name).parent) not in notice] == []


def test_the_page_is_current(parts: tuple[Part, ...]) -> None:
    assert (ROOT / "docs" / "licences.md").read_text() == licences_page.render(parts), STALE


def test_the_bill_of_materials_is_current_and_valid(parts: tuple[Part, ...]) -> None:
    text = BILL.read_text()
    assert text == sbom.render(parts), STALE
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    document = json.loads(text)
    assert document["metadata"]["component"]["version"] == __version__
    assert len(document["components"]) == len(parts)
    needs = {entry["ref"]: entry.get("dependsOn", []) for entry in document["dependencies"]}
    (jinja,) = (part for part in parts if part.name == "jinja2")
    assert [need.split("@")[0] for need in needs[jinja.purl]] == ["pkg:pypi/markupsafe"]


@pytest.mark.parametrize(
    ("licence", "fine"),
    [
        ("MIT", True),
        ("GPL-3.0-only", False),
        ("GPL-3.0-only OR MIT", True),
        ("Apache-2.0 AND (MIT OR GPL-3.0-only)", True),
        ("Apache-2.0 AND MPL-2.0", False),
    ],
)
def test_one_side_of_an_or_and_all_of_an_and(licence: str, fine: bool) -> None:
    assert allowed(licence) is fine


def test_the_policy_names_real_licences() -> None:
    assert [name for name in POLICY["allowed"] if SPDX.validate(name).errors] == []


def test_a_licence_that_metadata_leaves_open_is_refused_with_the_way_out(tmp_path: Path) -> None:
    folder = tmp_path / "murky-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: murky\nVersion: 1.0\nClassifier: License :: OSI Approved :: BSD License\n"
    )
    with pytest.raises(UnknownLicence, match=r"murky: .*BSD License.*policy\.yaml"):
        licence_of(Distribution.at(folder))
