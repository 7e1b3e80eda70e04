"""`specdecode instance` where the machine's disk or a check ends it: one message, and what to do."""

import errno
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from specdecode import finished, s3_keys
from specdecode.benchmark.place import S3Folder
from specdecode.cli import app, report_recorded
from specdecode.instance import engines, requirements
from specdecode.instance import run as run_module
from specdecode.instance.run import InstanceRun
from specdecode.pod.bucket import FolderClient
from specdecode.store import NotDeleted, Store
from typer.testing import CliRunner

from tests.finished_folders import finish, mark

PREPARE = InstanceRun.prepare


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run the command with these options, on a machine where all is there and nothing takes time."""
    (tmp_path / "bin").mkdir()
    for name in ("vllm", "python3"):
        (tmp_path / "bin" / name).touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(requirements, "problems", lambda *_: [])
    monkeypatch.setattr(InstanceRun, "prepare", lambda self, **_: None)
    monkeypatch.setattr(InstanceRun, "measure", lambda self: None)
    return lambda *words: CliRunner().invoke(app, ["instance", "rehearsal", "--venv", str(tmp_path), *words])


def test_a_store_that_cannot_be_made_is_a_wrong_input(run) -> None:
    found = run("--store", "/proc/none")
    assert (found.exit_code, found.stderr) == (2, "error: [Errno 2] No such file or directory: '/proc/none'\n")


def test_a_disk_that_is_full_at_the_report_says_how_to_finish(run, monkeypatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "report.html")

    monkeypatch.setattr(report_recorded, "recorded", full)
    found = run("--out", "mine")
    assert found.exit_code == 1, found.output
    assert "No space left on device: 'report.html'; the same command with --resume --out " in found.stderr


def test_a_refused_check_does_not_speak_of_a_run(run, monkeypatch) -> None:
    monkeypatch.setattr(requirements, "problems", lambda *_: ["no device"])
    found = run()
    assert found.exit_code == 3 and found.stderr == "error: no device\n"


@pytest.fixture
def made(run, tmp_path, monkeypatch) -> list[str]:
    """Artifacts are prepared after all, by a compiler that leaves one file: the folders that were made, in order.

    `s3://bucket/` is the folder s3.
    """
    folders: list[str] = []
    compiler = engines.compiler

    def quick(plan, arm, ctx, at):
        folders.append(s3_keys.compiled_prefix(arm.fingerprint).rstrip("/"))
        return replace(compiler(plan, arm, ctx, at), script="exit 0")

    def keep(self: InstanceRun, *_: object) -> None:
        (self.at.store / folders[-1]).mkdir(parents=True)
        (self.at.store / folders[-1] / "a.bin").write_text("anew")
        finish(self.at.store, folders[-1])

    monkeypatch.setattr(run_module, "LOOK_EVERY_S", 0.01)
    monkeypatch.setattr(InstanceRun, "prepare", PREPARE)
    monkeypatch.setattr(InstanceRun, "run", keep)
    monkeypatch.setattr(engines, "programs_before", lambda *_: [])
    monkeypatch.setattr(engines, "compiler", quick)
    monkeypatch.setattr(S3Folder, "store", Store(s3=FolderClient(tmp_path / "s3"), bucket="bucket"))
    monkeypatch.setattr("specdecode.cli.instance._report", lambda *_: None)
    return folders


def _written(path: Path, content: bytes) -> None:
    """As S3 does: another object in the place of the old one, whose bytes the store may share."""
    path.unlink(missing_ok=True)
    path.write_bytes(content)


DAMAGE: dict[str, Callable[[Path], object]] = {
    "COMPLETE.json is not readable: not JSON": lambda folder: _written(folder / "COMPLETE.json", b"{"),
    "COMPLETE.json is that of compiled/f/": lambda folder: _written(
        folder / "COMPLETE.json", mark("compiled/f/", {"a": b""})
    ),
    "a.bin differs from its SHA-256": lambda folder: _written(folder / "a.bin", b"Anew"),
}
CUT, SWAPPED, FLIPPED = DAMAGE


@pytest.mark.parametrize("cause", [CUT, SWAPPED])
def test_a_damaged_artifact_of_the_store_is_told_deleted_and_compiled(run, made, tmp_path, cause: str) -> None:
    assert run("--out", "first").exit_code == 0
    first, *_ = before = list(made)
    DAMAGE[cause](tmp_path / "store" / first)
    found = run("--out", "second")
    assert (found.exit_code, made) == (0, [*before, first]), found.output
    assert "was damaged and is deleted: " in found.stderr and cause in found.stderr
    again = run("--out", "third")
    assert made == [*before, first] and "was damaged" not in again.stderr


@pytest.mark.parametrize("cause", [CUT, FLIPPED])
def test_an_artifact_that_is_damaged_in_s3_is_told_and_compiled_and_the_new_one_goes_there(
    run, made, tmp_path, cause: str
) -> None:
    def machine(name: str):
        return run("--out", f"results-{name}", "--store", name, "--artifacts", "s3://bucket/kept/")

    assert machine("one").exit_code == 0
    first, *_ = before = list(made)
    kept = tmp_path / "s3" / "kept" / first
    DAMAGE[cause](kept)
    found = machine("two")
    assert (found.exit_code, made) == (0, [*before, first]), found.output
    assert "in S3 is damaged, and nothing of it is kept: " in found.stderr and cause in found.stderr
    assert {path.name: path.read_bytes() for path in kept.iterdir() if path.suffix != ".json"} == {"a.bin": b"anew"}
    again = machine("three")
    assert made == [*before, first] and "brought the artifact of base from S3" in again.stderr, again.output


def test_nothing_of_a_damaged_artifact_in_s3_is_left_where_nothing_may_be_compiled(run, made, tmp_path) -> None:
    options = ["--artifacts", "s3://bucket/"]
    assert run("--out", "first", *options).exit_code == 0
    first = made[0]
    DAMAGE[FLIPPED](tmp_path / "s3" / first)
    found = run("--out", "second", "--store", "other", "--skip-compile", *options)
    assert found.exit_code == 1 and "leave out --skip-compile to make it" in found.stderr
    assert not (tmp_path / "other" / first).exists()


def test_an_object_that_s3_keeps_is_told(run, made, monkeypatch) -> None:
    def kept(*_: object) -> None:
        raise NotDeleted("S3 does not delete it")

    monkeypatch.setattr(Store, "delete", kept)
    found = run("--out", "mine", "--artifacts", "s3://bucket/")
    assert found.exit_code == 1 and "S3 does not delete it; the same command with --resume" in found.stderr


def test_servers_compare_what_was_prepared_and_the_report_names_it(run, made, tmp_path, monkeypatch) -> None:
    scripts, shown = [], {}

    def measure(self: InstanceRun) -> None:
        scripts.extend(
            engines.server(self.plan, arm, self.ctx, self.at, place=0).script for arm in self.plan.waves[0].arms
        )

    monkeypatch.setattr(InstanceRun, "measure", measure)
    monkeypatch.setattr("specdecode.cli.instance._report", lambda _, __, run, ___: shown.update(run.artifacts_here))
    assert run().exit_code == 0
    own = Store(s3=FolderClient(tmp_path / "store"), bucket="store")
    hashes = {folder: finished.find(own, f"{folder}/").content for folder in made}
    assert None not in hashes.values()
    for name, folder in zip(("base", "sd"), made, strict=True):
        assert shown[name] == f"{tmp_path}/store/{folder}, SHA-256 of its files {hashes[folder]}"
        assert any(f'"content": "{hashes[folder]}"' in script for script in scripts)
