"""The bundle: the same bytes for the same sources, and only what runs."""

import hashlib
import os
import re
import zipfile
from pathlib import Path

import pytest

from constructs_lib.storage.bundle import KEPT, BundleError, build_bundle


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a package, an asset, and dependencies that are installed already."""
    root = tmp_path / "project"
    for name, text in {
        "requirements/lambda.txt": "",
        "lambda/specdecode/__init__.py": "x = 1\n",
        "lambda/specdecode/steps/plan.py": "y = 2\n",
        "lambda/specdecode/__pycache__/a.cpython-311.pyc": "no",
        "lambda/specdecode.egg-info/PKG-INFO": "no",
        "assets/experiments/one.yaml": "name: one\n",
    }.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def names(path: Path) -> list[str]:
    with zipfile.ZipFile(path) as archive:
        return archive.namelist()


def test_holds_the_package_and_the_assets_only(project: Path, tmp_path: Path) -> None:
    bundle = build_bundle(output=tmp_path / "out", root=project)
    assert names(bundle.path) == [
        "specdecode/__init__.py",
        "specdecode/assets/experiments/one.yaml",
        "specdecode/steps/plan.py",
    ]


def test_same_sources_same_bytes(project: Path, tmp_path: Path) -> None:
    first = build_bundle(output=tmp_path / "first", root=project)
    (project / "lambda/specdecode/__init__.py").touch()
    (project / "lambda/specdecode/steps/plan.py").chmod(0o600)
    second = build_bundle(output=tmp_path / "second", root=project)
    assert first.sha256 == second.sha256
    assert first.path.read_bytes() == second.path.read_bytes()
    assert first.path.name == second.path.name


@pytest.mark.parametrize(
    "changed", ["lambda/specdecode/steps/plan.py", "assets/experiments/one.yaml", "lambda/specdecode/new.py"]
)
def test_any_changed_source_is_another_bundle(project: Path, tmp_path: Path, changed: str) -> None:
    first = build_bundle(output=tmp_path, root=project)
    (project / changed).write_text("changed\n")
    second = build_bundle(output=tmp_path, root=project)
    assert first.sha256 != second.sha256
    assert first.path != second.path


def test_a_bundle_that_exists_is_not_built_again(project: Path, tmp_path: Path) -> None:
    first = build_bundle(output=tmp_path, root=project)
    stamp = first.path.stat().st_mtime_ns
    assert build_bundle(output=tmp_path, root=project) == first
    assert first.path.stat().st_mtime_ns == stamp


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    path = tmp_path / "library-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("library.py", "z = 3\n")
        archive.writestr("library-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: library\nVersion: 1.0\n")
        archive.writestr(
            "library-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr("library-1.0.dist-info/RECORD", "library.py,,\n")
    return path


def test_a_locked_dependency_is_in_it(project: Path, wheel: Path, tmp_path: Path) -> None:
    sha256 = hashlib.sha256(wheel.read_bytes()).hexdigest()
    (project / "requirements/lambda.txt").write_text(f"library @ {wheel.as_uri()} --hash=sha256:{sha256}\n")
    first = build_bundle(output=tmp_path / "first", root=project)
    assert "library.py" in names(first.path)
    assert ".lock" not in names(first.path)
    assert build_bundle(output=tmp_path / "second", root=project).sha256 == first.sha256


@pytest.mark.parametrize(
    ("locked", "says"),
    [
        ("library @ WHEEL --hash=sha256:" + "0" * 64, r"(?s)Hash mismatch.*library"),
        ("library @ WHEEL", r"(?s)hash.*library"),
        (
            "library @ file:///no-such-wheel-1.0-py3-none-any.whl --hash=sha256:" + "0" * 64,
            r"(?s)lambda\.txt.*package registry.*no-such-wheel",
        ),
    ],
    ids=["another hash", "no hash", "cannot be had"],
)
def test_a_dependency_that_is_not_the_locked_one_is_refused(
    project: Path, wheel: Path, tmp_path: Path, locked: str, says: str
) -> None:
    (project / "requirements/lambda.txt").write_text(locked.replace("WHEEL", wheel.as_uri()) + "\n")
    with pytest.raises(BundleError, match=says):
        build_bundle(output=tmp_path / "out", root=project)
    assert not list((tmp_path / "out").glob("*.zip"))


def test_only_the_newest_bundles_and_dependencies_are_kept(project: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    for number in range(KEPT + 4):
        folder = output / f"dependencies-{number}"
        (folder / "package").mkdir(parents=True)
        (output / f"specdecode-{number}.zip").touch()
        for path in (folder, output / f"specdecode-{number}.zip"):
            os.utime(path, (number, number))
    path = build_bundle(output=output, root=project).path
    kept = {str(number) for number in range(4, KEPT + 4)}
    assert {zipped.stem.removeprefix("specdecode-") for zipped in output.glob("*.zip") if zipped != path} == kept
    folders = [folder for folder in output.iterdir() if folder.is_dir()]
    assert len(folders) == KEPT + 1
    assert {folder.name.removeprefix("dependencies-") for folder in folders} > kept
    assert path.exists()


MEGABYTE = 1e6


def test_the_real_bundle_stays_small() -> None:
    """Measured: 14.0 MB zipped, 44.4 MB unzipped. Lambda's limit is 250 MB; ours is what a cold start costs."""
    path = build_bundle().path
    with zipfile.ZipFile(path) as archive:
        unzipped = sum(entry.file_size for entry in archive.infolist())
    assert path.stat().st_size < 15 * MEGABYTE
    assert unzipped < 48 * MEGABYTE


def test_what_is_compiled_in_it_runs_on_amazon_linux_2() -> None:
    """Lambda's Python 3.11, and the image of the pods that run it: glibc 2.26."""
    with zipfile.ZipFile(build_bundle().path) as archive:
        needed = {
            entry.filename: max(
                (int(minor) for minor in re.findall(rb"GLIBC_2\.(\d+)", archive.read(entry))), default=0
            )
            for entry in archive.infolist()
            if ".so" in entry.filename
        }
    assert any("tokenizers" in name for name in needed) and any("pydantic_core" in name for name in needed)
    assert {name: minor for name, minor in needed.items() if minor > 26} == {}
