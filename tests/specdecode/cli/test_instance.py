"""`specdecode instance` where the machine's disk or a check ends it: one message, and what to do."""

import errno
import os
import shlex
import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from specdecode import finished, names, s3_keys
from specdecode.benchmark.place import S3Folder
from specdecode.cli import app, report_recorded
from specdecode.instance import engines, requirements
from specdecode.instance import run as run_module
from specdecode.instance.engines import Program
from specdecode.instance.measured import MeasuredWaves
from specdecode.instance.run import InstanceRun
from specdecode.instance.running import RunFailed
from specdecode.planning import Arm
from specdecode.pod import stage
from specdecode.pod.bucket import FolderClient, remove
from specdecode.store import NotDeleted, Store
from specdecode.untrusted import Unreadable
from typer.testing import CliRunner

from tests.finished_folders import deep, finish, mark
from tests.local_http import Handler, served
from tests.specdecode.instance.test_same_lines import plan_of

PREPARE, MEASURE, RUN, PROBLEMS = InstanceRun.prepare, InstanceRun.measure, InstanceRun.run, requirements.problems


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


def test_a_model_that_is_a_link_and_not_whole_is_told_before_anything_begins(run, monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(requirements, "problems", PROBLEMS)
    models = tmp_path / "store" / "models"
    models.mkdir(parents=True)
    name = Path(plan_of("rehearsal").models[0].prefix).name
    (models / name).symlink_to("/mnt/nowhere")
    found = run("--store", "store")
    assert found.exit_code == 3
    assert f"{name} is a link to /mnt/nowhere, and not whole: nothing is changed there. Move it away" in found.stderr


def test_a_store_that_may_not_be_read_is_one_message(run, monkeypatch) -> None:
    def refuses(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", "store/models/m/sub")

    monkeypatch.setattr(FolderClient, "get_object", refuses)
    found = run("--store", "store")
    assert found.exit_code == 2
    assert found.stderr == "error: --store cannot be read: [Errno 13] Permission denied: 'store/models/m/sub'\n"


def test_a_disk_that_is_full_at_the_report_says_how_to_finish(run, monkeypatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "report.html")

    monkeypatch.setattr(report_recorded, "recorded", full)
    found = run("--out", "mine")
    assert found.exit_code == 1, found.output
    assert "No space left on device: 'report.html'; the same command with --resume --out " in found.stderr


@pytest.mark.parametrize(
    ("options", "holds", "says"),
    [
        ([], "experiment.yaml", "mine is not empty: choose a new folder"),
        (["--ask", "What?"], "benchmark.json", "mine is not empty: choose a new folder"),
        (["--resume"], "experiment.yaml", "mine holds no benchmark"),
        (["--resume"], "benchmark.json", "choose another --out"),
        ([], "benchmark.json", "choose another --out"),
    ],
)
def test_a_folder_of_other_files_is_refused_and_nothing_in_it_changes(run, tmp_path, options, holds, says) -> None:
    files = [tmp_path / "mine" / holds, tmp_path / "mine" / "scratch" / "thesis"]
    files[1].parent.mkdir(parents=True)
    for file in files:
        file.write_text("mine")
    found = run("--out", "mine", *options)
    assert (found.exit_code, says in found.stderr) == (2, True), found.stderr
    assert [file.read_text() for file in files] == ["mine", "mine"]
    assert {*(tmp_path / "mine").iterdir()} == {files[0], files[1].parent}


@pytest.mark.parametrize(
    ("before", "after"), [(signal.SIG_IGN, signal.SIG_IGN), (signal.SIG_DFL, signal.default_int_handler)]
)
def test_a_hangup_that_is_ignored_stays_ignored(run, monkeypatch, before: Any, after: Any) -> None:
    monkeypatch.setattr("specdecode.cli.instance._report", lambda *_: None)
    was = signal.signal(signal.SIGHUP, before)
    try:
        assert run().exit_code == 0
        assert signal.getsignal(signal.SIGHUP) is after
    finally:
        signal.signal(signal.SIGHUP, was)


@pytest.mark.parametrize(
    ("more", "other"),
    [
        (["--set", "variants.sd.speculation.draft.revision=v2"], "variants.1.speculation.draft.revision: v1 -> v2"),
        (["--set", "serving.max_num_seqs=2"], "serving.max_num_seqs: 4 -> 2"),
        (["--set", "deadlines.compile=20", "--set", "hold=5", "--set", "title=New"], ""),
    ],
)
def test_a_resumed_run_has_the_settings_of_its_first_start(run, monkeypatch, tmp_path, more, other: str) -> None:
    monkeypatch.setattr("specdecode.cli.instance._report", lambda *_: None)
    assert run("--out", "mine").exit_code == 0
    before = {path: path.read_bytes() for path in (tmp_path / "mine").iterdir()}
    found = run("--out", "mine", "--resume", *more)
    assert found.exit_code == (2 if other else 0), found.stderr
    assert not other or f"mine holds a run of other settings ({other}" in found.stderr
    assert {path: path.read_bytes() for path in (tmp_path / "mine").iterdir()} == before


def test_two_runs_do_not_write_to_one_folder(run, monkeypatch) -> None:
    """Whatever store the other one has: their servers and their load would measure each other."""
    said = []

    def meanwhile(*_: object, **__: object) -> None:
        monkeypatch.setattr(InstanceRun, "prepare", lambda self, **_: None)
        said.append(run("--store", "other", "--out", "mine", "--resume"))

    monkeypatch.setattr(InstanceRun, "prepare", meanwhile)
    run("--out", "mine")
    said.append(run("--out", "mine", "--resume"))
    refused = f"error: another benchmark writes to {Path('mine').resolve()}: wait for it, or choose another --out\n"
    assert [each.stderr == refused for each in said] == [True, False], "it is free again"
    assert said[0].exit_code == 2


def test_a_refused_check_does_not_speak_of_a_run(run, monkeypatch) -> None:
    monkeypatch.setattr(requirements, "problems", lambda *_: ["no device"])
    found = run()
    assert found.exit_code == 3 and found.stderr == "error: no device\n"


def test_a_server_that_dies_within_a_chunk_ends_a_question_in_words(run, monkeypatch) -> None:
    class Dies(Handler):
        def do_POST(self) -> None:
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"99\r\ndata:")

    @contextmanager
    def serving(_: InstanceRun, arms: Sequence[Arm]) -> Iterator[tuple[list[Any], dict[str, str]]]:
        yield [SimpleNamespace(url=url)], {names.api_key_variable(arm.variant): "key" for arm in arms}

    monkeypatch.setattr(InstanceRun, "serving", serving)
    with served(Dies) as url:
        found = run("--ask", "What?")
    assert (found.exit_code, found.stderr.count("base: AnswerError: the server broke off: IncompleteRead")) == (1, 1)


@pytest.fixture
def made(run, tmp_path, monkeypatch) -> list[str]:
    """Models and artifacts are prepared after all, each with one file; that of an artifact that is made again has other
    bytes. Returns the artifacts that were made, in order. `s3://bucket/` is the folder s3.
    """
    folders: list[str] = []
    compiler = engines.compiler

    def quick(plan, arm, ctx, at):
        folders.append(s3_keys.compiled_prefix(arm.fingerprint).rstrip("/"))
        return replace(compiler(plan, arm, ctx, at), script="exit 0")

    def leave(self: InstanceRun, program: Program, *_: object, **__: object) -> int:
        if program.title.startswith("compare"):
            return 0
        if program.title.startswith("fetch"):
            words = shlex.split(program.words.replace("$BUCKET", str(self.at.store)))
            (self.at.store / words[-1]).mkdir(parents=True, exist_ok=True)
            (self.at.store / words[-1] / WEIGHTS).write_bytes(b"weights")
            stage.main(words[1:])
            return 0
        (self.at.store / folders[-1]).mkdir(parents=True)
        (self.at.store / folders[-1] / "a.bin").write_text("anew" + "!" * folders[:-1].count(folders[-1]))
        finish(self.at.store, folders[-1])
        return 0

    monkeypatch.setattr(InstanceRun, "prepare", PREPARE)
    monkeypatch.setattr(InstanceRun, "run", leave)
    monkeypatch.setattr(engines, "compiler", quick)
    monkeypatch.setattr(S3Folder, "store", Store(s3=FolderClient(tmp_path / "s3"), bucket="bucket"))
    monkeypatch.setattr("specdecode.cli.instance._report", lambda *_: None)
    return folders


def _written(path: Path, content: bytes) -> None:
    """As S3 does: another object in the place of the old one, whose bytes the store may share."""
    path.unlink(missing_ok=True)
    path.write_bytes(content)


WEIGHTS = "model.safetensors"
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


@pytest.mark.parametrize("odd", [lambda folder: (remove(folder), folder.touch()), deep], ids=["a file", "deep"])
def test_what_is_in_the_place_of_an_artifact_gives_way(run, made, tmp_path, odd: Callable[[Path], object]) -> None:
    assert run("--out", "first").exit_code == 0
    first, *_ = before = list(made)
    odd(tmp_path / "store" / first)
    found = run("--out", "second")
    assert (found.exit_code, made) == (0, [*before, first]), found.output
    assert (tmp_path / "store" / first / "a.bin").read_text() == "anew!" and len(found.stderr) < 2000


def test_a_link_to_nowhere_in_place_of_all_models_is_named_before_anything_starts(run, tmp_path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "models").symlink_to("/nowhere")
    found = run()
    assert (found.exit_code, found.stderr) == (2, "error: --store: store/models is no folder: move it away\n")


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
    assert {path.name: path.read_bytes() for path in kept.iterdir() if path.suffix != ".json"} == {"a.bin": b"anew!"}
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


@pytest.fixture
def model(run, made, tmp_path) -> Path:
    """The target of a store whose artifacts are gone."""
    assert run("--out", "first").exit_code == 0
    shutil.rmtree(tmp_path / "store" / "compiled")
    return sorted((tmp_path / "store" / "models").iterdir())[-1]


def test_an_object_that_s3_keeps_is_told(run, model, monkeypatch) -> None:
    def kept(*_: object) -> None:
        raise NotDeleted("S3 does not delete it")

    monkeypatch.setattr(Store, "delete", kept)
    found = run("--out", "mine", "--artifacts", "s3://bucket/")
    assert found.exit_code == 1 and "S3 does not delete it; the same command with --resume" in found.stderr


@pytest.fixture
def measured(made, monkeypatch) -> list[dict[str, str]]:
    """Waves are measured at once, but the second serving breaks off. Returns what each server compares: folder ->
    hash.
    """
    served: list[dict[str, str]] = []

    @contextmanager
    def serving(self: InstanceRun, arms: Sequence[Arm]) -> Iterator[tuple[list[Any], dict[str, str]]]:
        scripts = "".join(engines.server(self.plan, arm, self.ctx, self.at, place=0).script for arm in arms)
        served.append({folder: each for folder, each in self.ctx.contents.items() if f'"content": "{each}"' in scripts})
        if len(served) == 2:
            raise RunFailed("it broke off")
        yield [], {}

    monkeypatch.setattr(InstanceRun, "measure", MEASURE)
    monkeypatch.setattr(InstanceRun, "serving", serving)
    left = InstanceRun.run
    asks = ["smoke test", "benchmark"]
    monkeypatch.setattr(InstanceRun, "run", lambda *at, **more: 0 if at[1] in asks else left(*at, **more))
    monkeypatch.setattr(run_module, "asked", lambda *_: asks)
    return served


def test_a_resumed_run_names_what_its_servers_compared(run, made, tmp_path, monkeypatch, measured) -> None:
    """Wave 0, its artifact made anew, wave 1, and the same once more when all is measured."""
    shown: list[tuple[dict[str, str], list[str]]] = []
    monkeypatch.setattr("specdecode.cli.instance._report", lambda _, __, run, ___: shown.append(run.shown()))
    own, now = Store(s3=FolderClient(tmp_path / "store"), bucket="store"), []
    for more in ([], ["--resume"], ["--resume"]):
        found = run("--out", "mine", "--set", "workload.rounds=2", *more)
        assert found.exit_code == (0 if more else 1), found.output
        folder = f"{made[0]}/"
        now.append(finished.find(own, folder).content)
        DAMAGE[CUT](tmp_path / "store" / folder)
    first, second, third = now
    assert [each[folder] for each in measured] == [first, first, second]
    assert [artifacts["base"] for artifacts, _ in shown] == [
        f"{tmp_path}/store/{made[0]}, SHA-256 of its files {first}, then {second}"
    ] * 2
    anew = f"{folder} was made anew after measuring had begun: its files had SHA-256 {first}"
    assert [told for _, told in shown] == [
        [f"{anew}, and have {second} now."],
        [f"{anew}, then {second}, and have {third} now."],
    ]


def test_a_run_of_an_earlier_version_goes_on_and_names_no_hash_that_it_does_not_know(run, made, measured) -> None:
    command = ["--out", "mine", "--set", "workload.rounds=2"]
    assert run(*command).exit_code == 1
    Path("mine/measured.json").write_text("[0]")
    assert run(*command, "--resume").exit_code == 0
    found = MeasuredWaves.of(Path("mine"))
    assert found.waves == (0, 1) and set(map(len, found.measured_with.values())) == {1}
    Path("mine/measured.json").write_text("[0, 1]")
    assert run(*command, "--resume").exit_code == 0
    assert MeasuredWaves.of(Path("mine")).measured_with == {} and len(measured) == 3


def test_a_damaged_model_is_fetched_again_before_anything_is_compiled_from_it(run, model, monkeypatch, capfd) -> None:
    compiler, left, compiled_from = engines.compiler, InstanceRun.run, []

    def look(*given: Any) -> engines.EngineRun:
        compiled_from.append((model / WEIGHTS).read_bytes())
        return compiler(*given)

    def ran(self: InstanceRun, program: Program, *given: Any, **more: Any) -> int:
        return (RUN if program.title.startswith("compare") else left)(self, program, *given, **more)

    monkeypatch.setattr(engines, "compiler", look)
    monkeypatch.setattr(InstanceRun, "run", ran)
    _written(model / WEIGHTS, b"Weights")
    found = run("--out", "second")
    assert found.exit_code == 0, found.output
    assert compiled_from == [b"weights", b"weights"]
    assert found.stderr.count(" GiB) with what was stored") == 2, "each model once for both arms"
    assert found.stderr.count("is damaged and is fetched again: what differs is named above") == 1
    assert found.stderr.count("is as it was stored: compared in ") == 1
    said = capfd.readouterr().err
    assert f"models/{model.name}/ is damaged: {WEIGHTS} differs from its SHA-256" in said and "Warning" not in said


def test_a_model_that_a_server_finds_damaged_is_fetched_by_the_next_start(run, made, tmp_path, monkeypatch) -> None:
    assert run("--out", "first").exit_code == 0
    model, server = sorted((tmp_path / "store" / "models").iterdir())[-1], engines.server
    _written(model / WEIGHTS, b"Weights")
    with monkeypatch.context() as finds:
        finds.setattr(InstanceRun, "measure", MEASURE)
        finds.setattr(engines, "server", lambda *at, **more: replace(server(*at, **more), script="exit 79"))
        found = run("--out", "second")
    assert found.exit_code == 1 and "set aside; the next start fetches again what is damaged" in found.stderr
    found = run("--out", "second", "--resume")
    assert found.exit_code == 0 and f"{model.name}/ is complete" in found.output
    assert (model / WEIGHTS).read_bytes() == b"weights"


DAMAGED_MODEL: dict[str, Callable[[Path], object]] = {
    "model.safetensors": lambda folder: (folder / WEIGHTS).unlink(),
    "COMPLETE.json is not readable": lambda folder: _written(folder / "COMPLETE.json", b""),
}


@pytest.mark.parametrize("cause", DAMAGED_MODEL)
def test_a_model_whose_listing_shows_damage_is_set_aside_and_fetched_again(run, model, cause: str) -> None:
    DAMAGED_MODEL[cause](model)
    found = run("--out", "second")
    assert found.exit_code == 0, found.output
    assert "is damaged and is fetched again: models/" in found.stderr and cause in found.stderr
    assert (model / WEIGHTS).read_bytes() == b"weights"
    again = run("--out", "third")
    assert again.exit_code == 0 and "fetch" not in again.stderr, again.output


def test_what_another_machine_sent_meanwhile_stays_in_s3_and_is_told(run, made, tmp_path, monkeypatch) -> None:
    compiler = engines.compiler

    def late(plan, arm, ctx, at):
        finish(tmp_path / "s3" / "kept", s3_keys.compiled_prefix(arm.fingerprint).rstrip("/"))
        return compiler(plan, arm, ctx, at)

    monkeypatch.setattr(engines, "compiler", late)
    found = run("--out", "mine", "--artifacts", "s3://bucket/kept/")
    assert found.exit_code == 0, found.output
    assert "S3 has a whole artifact of base by now: it stays, and this run measures its own" in found.stderr
    assert [path.name for path in (tmp_path / "s3" / "kept" / made[0]).glob("*.bin")] == ["part-0.bin"]
    assert (tmp_path / "store" / made[0] / "a.bin").exists()


@pytest.mark.parametrize(
    ("text", "says"), [("{", "not JSON"), ('{"waves": ["x"]}', "waves.0: must be a whole number"), ("5", "must be")]
)
def test_a_damaged_record_of_what_is_measured_is_told_in_words(tmp_path, text: str, says: str) -> None:
    (tmp_path / "measured.json").write_text(text)
    with pytest.raises(Unreadable, match=rf"measured\.json: .*{says}.*; delete it to measure all waves again"):
        MeasuredWaves.of(tmp_path)
