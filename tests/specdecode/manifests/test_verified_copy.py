"""What a server loads is compared byte for byte with what was stored, and copied on the way."""

import ast
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from specdecode.finished import content, document, parse
from specdecode.manifests import verified_copy
from specdecode.pod.bucket import remove

from tests.finished_folders import deep, entries, finish, mark

NAME = "compiled/f"
FILES = {"neuron_config.json": b"{}", "weights/tp0.safetensors": b"w" * 3000, "weights/tp1.safetensors": b"v" * 3000}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    for path, body in FILES.items():
        (tmp_path / NAME / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / NAME / path).write_bytes(body)
    finish(tmp_path, NAME)
    yield tmp_path / NAME
    remove(tmp_path / NAME)


def run(*, known: bool = True, copied: bool = True) -> subprocess.CompletedProcess[str]:
    """As a pod does: the program is the text of the file, in an interpreter that sees nothing of ours."""
    stored = content(parse(f"{NAME}/", mark(f"{NAME}/", FILES))) if known else ""
    folders = [{"name": NAME, "content": stored, "copied": copied, "code": 76}]
    given = json.dumps({"local": "local", "streams": 4, "folders": folders})
    source = Path(verified_copy.__file__).read_text("utf-8")
    return subprocess.run([sys.executable, "-I", "-c", source, given], capture_output=True, text=True, timeout=60)


def test_an_old_python_can_run_it() -> None:
    """None of its annotations is evaluated: `X | Y` is no type before 3.10."""
    tree = ast.parse(Path(verified_copy.__file__).read_text("utf-8"), feature_version=(3, 9))
    assert any(isinstance(it, ast.ImportFrom) and it.module == "__future__" for it in tree.body)


def _swapped(folder: Path) -> None:
    """The files and the COMPLETE.json of another artifact, whole in itself."""
    (folder / "neuron_config.json").write_bytes(b"[]")
    finish(folder.parents[1], NAME)


def _piped(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _linked(path: Path, to: str) -> None:
    path.unlink()
    path.symlink_to(to)


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "a flipped byte": (
        lambda folder: (folder / "weights/tp1.safetensors").write_bytes(b"v" * 2999 + b"w"),
        "weights/tp1.safetensors differs from its SHA-256",
    ),
    "a truncated file": (
        lambda folder: (folder / "weights/tp0.safetensors").write_bytes(b"w" * 100),
        "weights/tp0.safetensors has 100 bytes, not 3000",
    ),
    "a missing file": (lambda folder: (folder / "neuron_config.json").unlink(), "neuron_config.json is missing"),
    "an extra file": (lambda folder: (folder / "more.neff").touch(), "more.neff does not belong there"),
    "a link to a folder": (lambda folder: (folder / "more").symlink_to("/proc"), "more does not belong there"),
    "a folder of another name": (
        lambda folder: (folder / "COMPLETE.json").write_bytes(mark("compiled/g/", FILES)),
        "its COMPLETE.json is that of compiled/g/",
    ),
    "a swapped folder": (_swapped, "lists other files than when this run began"),
    "no mark": (lambda folder: (folder / "COMPLETE.json").unlink(), "it has no COMPLETE.json"),
    "a broken mark": (lambda folder: (folder / "COMPLETE.json").write_text("{"), "its COMPLETE.json cannot be read"),
    "a deep mark": (
        lambda folder: (folder / "COMPLETE.json").write_text("[" * 100_000),
        "its COMPLETE.json cannot be read",
    ),
    "half a character": (
        lambda folder: (folder / "COMPLETE.json").write_bytes(
            mark(f"{NAME}/", FILES).replace(b"neuron_config", rb"\ud800")
        ),
        "its COMPLETE.json cannot be read",
    ),
    "a pipe for a file": (
        lambda folder: _piped(folder / "neuron_config.json"),
        "neuron_config.json is no regular file",
    ),
    "a pipe for the mark": (lambda folder: _piped(folder / "COMPLETE.json"), "its COMPLETE.json is no regular file"),
    "a device for a file": (
        lambda folder: _linked(folder / "neuron_config.json", "/dev/zero"),
        "neuron_config.json is no regular file",
    ),
    "a deep folder": (lambda folder: deep(folder), "d/d does not belong there"),
    "a file that is listed twice": (
        lambda folder: (folder / "COMPLETE.json").write_text(
            document(f"{NAME}/", [*entries(FILES), entries(FILES)[0]], about={})
        ),
        "its COMPLETE.json lists a file twice",
    ),
    "an empty mark": (
        lambda folder: (folder / "COMPLETE.json").write_bytes(mark(f"{NAME}/", {})),
        "its COMPLETE.json lists no file",
    ),
}


def test_what_is_as_it_was_stored_is_copied(folder: Path) -> None:
    ended = run()
    assert (ended.returncode, ended.stderr) == (0, "")
    local = folder.parents[1] / "local" / NAME
    assert {
        path.relative_to(local).as_posix(): path.read_bytes() for path in local.rglob("*") if path.is_file()
    } == FILES


@pytest.mark.parametrize("copied", [True, False])
@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_ends_with_its_own_code_and_is_named(folder: Path, kind: str, copied: bool) -> None:
    damage, words = DAMAGE[kind]
    damage(folder)
    ended = run(copied=copied)
    assert ended.returncode == 76 and len(ended.stderr.splitlines()) == 1
    assert ended.stderr.startswith(f"specdecode: error 76: {NAME}/ is damaged: ") and words in ended.stderr


def test_a_mount_that_cannot_be_read_is_no_damage(folder: Path) -> None:
    (folder / "neuron_config.json").unlink()
    (folder / "neuron_config.json").symlink_to("neuron_config.json")
    ended = run()
    assert ended.returncode == 1 and "cannot be read or copied" in ended.stderr


def test_a_container_that_starts_again_reads_what_it_loads_through_the_mount_and_keeps_its_copies(folder: Path) -> None:
    assert run().returncode == 0
    (folder.parents[1] / "local" / "verified").touch()
    DAMAGE["a flipped byte"][0](folder)
    assert run().returncode == 0
    assert run(copied=False).returncode == 76


def test_as_many_files_are_read_at_once_as_were_planned(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    meeting = threading.Barrier(3)
    monkeypatch.setattr(verified_copy, "read", lambda *_: str(meeting.wait(timeout=60)))
    found = verified_copy.problems(Path(NAME), "", streams=3, target=None)
    assert sorted(found) == ["0", "1", "2"]
