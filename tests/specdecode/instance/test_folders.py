"""A folder in place of the bucket, and artifacts that go to S3 and come back."""

import errno
import json
import math
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from specdecode import finished
from specdecode.benchmark.place import S3Folder
from specdecode.experiment import load_preset
from specdecode.experiment.capacity import COPY_MARGIN
from specdecode.instance.engines import Folders
from specdecode.instance.requirements import SMALL_GIB, problems
from specdecode.instance.s3_copies import bring, send
from specdecode.manifests import verified_copy
from specdecode.planning import read_inventory
from specdecode.pod.bucket import PARTIAL, Bucket, FolderClient, entry_of, remove
from specdecode.pod.program import PodError
from specdecode.pod.sources import ImportSource
from specdecode.pod.stage import main as stage_main
from specdecode.pod.stage import stage
from specdecode.pod.upload import upload
from specdecode.store import Store

from tests.finished_folders import deep, finish
from tests.plans import plan_for

PREFIX, ARTIFACT = "models/acme--m@v1/", "compiled/0123456789abcdef0123/"


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    own = tmp_path / "store" / "imports" / "m"
    (own / "sub").mkdir(parents=True)
    (own / "config.json").write_text("{}")
    (own / "sub" / "model.safetensors").write_bytes(b"weights")
    return tmp_path / "store"


def test_a_program_of_the_pods_finishes_a_model_in_a_folder_and_finds_it_again(store, capsys) -> None:
    for _ in range(2):
        stage_main(["--bucket", str(store), "--prefix", PREFIX, "--import-prefix", "imports/m/"])
    assert (store / PREFIX / "sub" / "model.safetensors").read_bytes() == b"weights"
    assert "is already complete" in capsys.readouterr().out
    found = read_inventory(FolderClient(store), bucket=str(store), prefixes=[PREFIX, ARTIFACT])
    assert (found.has(PREFIX), found.has(ARTIFACT)) == (True, False)
    (store / PREFIX / "config.json").write_text("{ }")
    assert not read_inventory(FolderClient(store), bucket=str(store), prefixes=[PREFIX]).has(PREFIX)


def test_a_second_try_keeps_whole_files_and_drops_what_was_cut_short(store) -> None:
    bucket = Bucket(str(store))
    stage(bucket, PREFIX, ImportSource(bucket, "imports/m/"), rescale=False)
    (store / PREFIX / "COMPLETE.json").unlink()
    (store / PREFIX / "config.json").unlink()
    (store / PREFIX / f"config.json{PARTIAL}").write_text("{")
    (store / PREFIX / f"other.json{PARTIAL}").write_text("{")
    before = (store / PREFIX / "sub" / "model.safetensors").stat().st_ino
    stage(bucket, PREFIX, ImportSource(bucket, "imports/m/"), rescale=False)
    assert (store / PREFIX / "sub" / "model.safetensors").stat().st_ino == before
    assert {entry.path for entry in bucket.complete(PREFIX) or ()} == {"config.json", "sub/model.safetensors"}
    assert (store / "imports" / "m" / "config.json").read_text() == "{}"
    assert not (store / PREFIX / f"other.json{PARTIAL}").exists()


def test_a_key_never_leads_out_of_the_folder(store) -> None:
    with pytest.raises(ValueError, match="no path below a folder"):
        FolderClient(store).get_object(Key="../secret")
    with pytest.raises(PodError, match="there is no models/none"):
        Bucket(str(store)).start_of("models/none", 1)
    (store.parent / "secret").touch()
    with pytest.raises(ValueError, match="no path below a folder"):
        Bucket(str(store)).delete(["../secret"])
    assert (store.parent / "secret").exists()


IN_THE_WAY: dict[str, Callable[[Path], object]] = {
    "a folder for the mark": lambda model: (_gone(model / "COMPLETE.json") / "x").mkdir(parents=True),
    "a folder for a file": lambda model: (_gone(model / "config.json") / "x").mkdir(parents=True),
    "a file for a folder of files": lambda model: _gone(model / "sub").touch(),
    "a file for the model": lambda model: _gone(model).touch(),
    "a link for a folder of files": lambda model: _gone(model / "sub").symlink_to(_mine(model)),
    "a newline in a name": lambda model: (model / "a\nb").touch(),
    "a name that is not UTF-8": lambda model: (model / os.fsdecode(b"\xff")).touch(),
    "a deep folder": deep,
    "a pipe": lambda model: os.mkfifo(model / "pipe"),
}


def _mine(model: Path) -> Path:
    """A folder of somebody's, outside the store."""
    mine = model.parents[2] / "mine"
    mine.mkdir()
    (mine / "model.safetensors").write_text("a photo")
    return mine


def _gone(path: Path) -> Path:
    remove(path)
    return path


@pytest.mark.parametrize("kind", IN_THE_WAY)
def test_what_is_in_the_way_of_a_model_gives_way_when_it_is_fetched_again(store, monkeypatch, kind: str) -> None:
    own = Store(s3=FolderClient(store), bucket=str(store))
    words = ["--bucket", str(store), "--prefix", PREFIX, "--import-prefix", "imports/m/"]
    stage_main(words)
    whole = finished.find(own, PREFIX).content
    IN_THE_WAY[kind](store / PREFIX.rstrip("/"))
    assert finished.find(own, PREFIX).content is None
    finished.set_aside(own, PREFIX)
    stage_main(words)
    assert whole and finished.find(own, PREFIX).content == whole
    monkeypatch.chdir(store)
    assert verified_copy.problems(Path(PREFIX), whole, streams=1, target=None) == []
    assert (
        not (store.parent / "mine").exists() or (store.parent / "mine" / "model.safetensors").read_text() == "a photo"
    )
    remove(store / "models")
    assert not (store / "models").exists()


@pytest.mark.parametrize("there", [True, False])
def test_nothing_is_written_or_deleted_where_a_link_in_place_of_a_model_leads(store, there: bool) -> None:
    """It may lead to another disk, that is not mounted now."""
    model = store / PREFIX.rstrip("/")
    model.parent.mkdir()
    model.symlink_to(_mine(model) if there else "nowhere")
    with pytest.raises(PodError, match=r"is a link to .*\. Move it away"):
        stage_main(["--bucket", str(store), "--prefix", PREFIX, "--import-prefix", "imports/m/"])
    assert model.is_symlink() and (not there or (model / "model.safetensors").read_text() == "a photo")


def test_a_whole_model_may_be_a_link_and_nothing_is_deleted_there_once_it_is_not_whole(store) -> None:
    """All of its files have tags, so that none is written again."""
    words = ["--bucket", str(store), "--prefix", PREFIX, "--import-prefix", "imports/m/"]
    stage_main(words)
    model, disk, own = store / PREFIX.rstrip("/"), store.parent / "disk", Store(s3=FolderClient(store), bucket="")
    model.rename(disk)
    model.symlink_to(disk)
    assert finished.find(own, PREFIX).content
    (disk / "photo.jpg").write_text("mine")
    with pytest.raises(PermissionError, match="is a link to"):
        finished.set_aside(own, PREFIX)
    (disk / "COMPLETE.json").unlink()
    with pytest.raises(PodError, match="is a link to"):
        stage_main(words)
    assert (disk / "photo.jpg").read_text() == "mine"


@pytest.mark.parametrize(
    ("name", "refused", "whole"),
    [("lost+found", PermissionError, True), ("sub", FileNotFoundError, True), ("sub", PermissionError, False)],
)
def test_what_may_not_be_read_is_no_part_of_an_empty_folder(store, monkeypatch, name, refused, whole: bool) -> None:
    """`lost+found` of a disk that is imported, a folder that is deleted meanwhile, and weights of another user."""
    (store / "imports" / "m" / name).mkdir(exist_ok=True)
    iterdir = Path.iterdir

    def refuses(path: Path) -> Iterator[Path]:
        if path.name == name:
            raise refused(path)
        return iterdir(path)

    monkeypatch.setattr(Path, "iterdir", refuses)
    bucket = Bucket(str(store))
    with nullcontext() if whole else pytest.raises(PodError, match=f"cannot list .*{name}"):
        stage(bucket, PREFIX, ImportSource(bucket, "imports/m/"), rescale=False)
    assert (bucket.complete(PREFIX) is not None) == whole
    if not whole:
        with pytest.raises(PodError, match="what cannot be read"):
            upload(bucket, ARTIFACT, store / "imports" / "m", about={})


def test_a_server_that_wrote_nothing_has_no_artifact(store) -> None:
    bucket = Bucket(str(store))
    with pytest.raises(PodError, match="wrote nothing"):
        upload(bucket, ARTIFACT, store / "none", about={})


def test_a_folder_deeper_than_there_are_open_files_can_be_deleted(store, monkeypatch) -> None:
    deep(store / "imports" / "m")
    monkeypatch.setattr(shutil, "rmtree", Mock(side_effect=OSError(errno.EMFILE, "too many open files")))
    remove(store / "imports")
    assert not (store / "imports").exists()


def test_a_listing_beside_a_writer_lacks_what_got_its_name_meanwhile(store, monkeypatch) -> None:
    (store / "imports" / "m" / f"x{PARTIAL}").touch()
    stat = Path.stat

    def gone(path: Path, **how: bool) -> os.stat_result:
        if path.name == f"x{PARTIAL}":
            raise FileNotFoundError(errno.ENOENT, "gone", path)
        return stat(path, **how)

    monkeypatch.setattr(Path, "stat", gone)
    monkeypatch.setattr(Path, "lstat", gone)
    assert Bucket(str(store)).listing("imports/m/").keys() == {"config.json", "sub/model.safetensors"}


def test_a_torn_tag_is_no_tag_and_a_name_may_be_as_long_as_a_disk_takes(store, tmp_path) -> None:
    name = "x" * 255
    (tmp_path / name).write_text(name)
    for torn in (b"", b"[]"):
        Bucket(str(store)).upload(tmp_path / name, ARTIFACT + name)
        (tag,) = (store / ".tags").iterdir()
        tag.write_bytes(torn)
        assert FolderClient(store).head_object(Key=ARTIFACT + name) == {"Metadata": {}}
    assert (store / ARTIFACT / name).read_text() == name


def test_an_artifact_may_have_a_file_of_the_name_that_a_copy_had_until_it_was_whole(store, tmp_path) -> None:
    for name in ("x", "x.partial"):
        (tmp_path / name).write_text(name)
        Bucket(str(store)).upload(tmp_path / name, ARTIFACT + name)
    Bucket(str(store)).upload(tmp_path / "x", f"{ARTIFACT}x")
    assert Bucket(str(store)).listing(ARTIFACT).keys() == {"x", "x.partial"}


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ([{"path": "a", "size": "1", "sha256": "0"}], "'1' is no size of a file"),
        ([{"path": "a", "size": 1.9, "sha256": "0"}], "'1.9' is no size"),
        ([{"path": "a", "size": True, "sha256": "0"}], "'True' is no size"),
        ([{"path": "a", "size": -1, "sha256": "0"}], "'-1' is no size"),
        ([{"path": "a", "size": 1, "sha256": "0"}] * 2, "COMPLETE.json lists a file twice"),
    ],
)
def test_a_mark_that_another_reader_takes_otherwise_is_damage(files: list[dict[str, object]], says: str) -> None:
    with pytest.raises(finished.Damaged, match=says):
        finished.parse("compiled/f/", json.dumps({"folder": "compiled/f/", "files": files}).encode())


SHARD = "weights/tp0.safetensors"


def _made(store: Path) -> S3Folder:
    """Finish an artifact in the store. Returns the folder of S3, which is empty, beside the store."""
    (store / ARTIFACT / SHARD).parent.mkdir(parents=True)
    (store / ARTIFACT / SHARD).write_bytes(b"shard")
    finish(store, ARTIFACT.rstrip("/"))
    there = S3Folder("s3://bucket/kept/")
    there.__dict__["store"] = Store(s3=FolderClient(store.parent / "s3"), bucket="bucket")
    return there


def test_an_artifact_goes_to_s3_and_comes_to_another_machine(store, tmp_path) -> None:
    there, entries = _made(store), [entry_of(SHARD, store / ARTIFACT / SHARD)]
    assert not bring(ARTIFACT, tmp_path / "other", there)
    assert send(ARTIFACT, store, there)
    assert bring(ARTIFACT, tmp_path / "other", there)
    assert Bucket(str(tmp_path / "other")).complete(ARTIFACT) == entries
    assert (tmp_path / "other" / ARTIFACT / "weights" / "tp0.safetensors").read_bytes() == b"shard"


DAMAGE: dict[str, Callable[[Path], object]] = {
    "a flipped byte": lambda folder: _written(folder / SHARD, "Shard"),
    "a cut file": lambda folder: _written(folder / SHARD, "sha"),
    "a file less": lambda folder: (folder / SHARD).unlink(),
    "a file more": lambda folder: (folder / "more.neff").touch(),
    "a cut mark": lambda folder: _written(folder / "COMPLETE.json", "{"),
    "the mark of another": lambda folder: _written(
        folder / "COMPLETE.json", finished.document("compiled/f/", [], about={})
    ),
}


def _written(path: Path, text: str) -> None:
    """As S3 does: a new object, not the old one with other bytes, which the store may share."""
    path.unlink()
    path.write_text(text)


@pytest.mark.parametrize("kind", DAMAGE)
def test_what_is_damaged_in_s3_is_not_brought_and_the_next_artifact_replaces_it(store, tmp_path, kind: str) -> None:
    there, kept = _made(store), tmp_path / "s3" / "kept" / ARTIFACT
    send(ARTIFACT, store, there)
    DAMAGE[kind](kept)
    with pytest.raises(finished.Damaged, match=ARTIFACT):
        bring(ARTIFACT, tmp_path / "other", there)
    assert Bucket(str(tmp_path / "other")).complete(ARTIFACT) is None
    if kind == "a flipped byte":  # which no listing shows: who reads it sets it aside
        finished.set_aside(there.store, f"kept/{ARTIFACT}")
    assert send(ARTIFACT, store, there)
    assert bring(ARTIFACT, tmp_path / "other", there)
    assert {path.name for path in kept.rglob("*") if path.is_file()} == {"COMPLETE.json", "tp0.safetensors"}


def test_a_whole_artifact_of_another_machine_stays_in_s3(store, tmp_path) -> None:
    there, kept = _made(store), tmp_path / "s3" / "kept"
    (kept / ARTIFACT / "weights").mkdir(parents=True)
    (kept / ARTIFACT / SHARD).write_bytes(b"other")
    finish(kept, ARTIFACT.rstrip("/"))
    assert not send(ARTIFACT, store, there)
    assert (kept / ARTIFACT / SHARD).read_bytes() == b"other" and (store / ARTIFACT / SHARD).read_bytes() == b"shard"


def test_nothing_is_whole_while_an_artifact_is_sent(store, monkeypatch) -> None:
    there, seen = _made(store), []
    send(ARTIFACT, store, there)
    DAMAGE["a file more"](store.parent / "s3" / "kept" / ARTIFACT)
    upload = Store.upload

    def look(self: Store, path: Path, key: str, *, tags: dict[str, str]) -> None:
        upload(self, path, key, tags=tags)
        seen.append(self.read(f"kept/{ARTIFACT}COMPLETE.json"))

    monkeypatch.setattr(Store, "upload", look)
    assert send(ARTIFACT, store, there) and seen == [None]


@pytest.mark.parametrize("size, missing", [(0, 10), (4, 6), (12, 0)])
def test_what_is_fetched_of_a_model_needs_no_more_room(store, monkeypatch, size: int, missing: int) -> None:
    experiment = load_preset("rehearsal")
    plan = plan_for(experiment)
    big = [item.model_copy(update={"model": item.model.model_copy(update={"size_gib": 10})}) for item in plan.models]
    plan = plan.model_copy(update={"models": tuple(big[:1]), "artifacts": ()})
    part = store / big[0].model.prefix / "part.safetensors"
    part.parent.mkdir(parents=True)
    with part.open("wb") as file:
        file.truncate(size << 30)
    needed = math.ceil(COPY_MARGIN * missing + SMALL_GIB)
    for free, told in ((needed, 0), (needed - 1, 1)):
        monkeypatch.setattr(shutil, "disk_usage", lambda _, free=free: SimpleNamespace(free=free << 30))
        assert (
            len([each for each in problems(plan, None, [], Folders(store=store, results=store)) if "GiB free" in each])
            == told
        )


@pytest.mark.parametrize("target", ["/proc", "/nowhere"])
def test_a_link_more_in_a_folder_is_damage(store, target: str) -> None:
    _made(store)
    own = Store(s3=FolderClient(store), bucket=str(store))
    assert finished.find(own, ARTIFACT).content
    (store / ARTIFACT / "more").symlink_to(target)
    assert str(finished.find(own, ARTIFACT).damage).endswith("says: more")


def test_a_link_among_the_files_is_kept_as_a_file(store, tmp_path) -> None:
    (tmp_path / "a.bin").write_bytes(b"a")
    (tmp_path / "link").symlink_to("a.bin")
    Bucket(str(store)).upload(tmp_path / "link", f"{ARTIFACT}a.bin")
    assert not (store / ARTIFACT / "a.bin").is_symlink()
    assert (store / ARTIFACT / "a.bin").stat().st_ino == (tmp_path / "a.bin").stat().st_ino
