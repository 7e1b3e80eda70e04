"""A folder in place of the bucket, and artifacts that go to S3 and come back."""

import pytest
from specdecode import finished
from specdecode.benchmark.place import S3Folder
from specdecode.instance.run import bring, send
from specdecode.planning import read_inventory
from specdecode.pod.bucket import Bucket, FolderClient, sha256_of
from specdecode.pod.program import PodError
from specdecode.pod.sources import ImportSource
from specdecode.pod.stage import main as stage_main
from specdecode.pod.stage import stage
from specdecode.store import Store

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
    (store / PREFIX / "config.json.partial").write_text("{")
    before = (store / PREFIX / "sub" / "model.safetensors").stat().st_ino
    stage(bucket, PREFIX, ImportSource(bucket, "imports/m/"), rescale=False)
    assert (store / PREFIX / "sub" / "model.safetensors").stat().st_ino == before
    assert {entry.path for entry in bucket.complete(PREFIX) or ()} == {"config.json", "sub/model.safetensors"}
    assert (store / "imports" / "m" / "config.json").read_text() == "{}"


def test_a_key_never_leads_out_of_the_folder(store) -> None:
    with pytest.raises(ValueError, match="no path below a folder"):
        FolderClient(store).get_object(Key="../secret")
    with pytest.raises(PodError, match="there is no models/none"):
        Bucket(str(store)).start_of("models/none", 1)


def test_an_artifact_goes_to_s3_and_comes_to_another_machine(store, tmp_path) -> None:
    file = store / ARTIFACT / "weights" / "tp0.safetensors"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"shard")
    entries = [finished.FileEntry("weights/tp0.safetensors", 5, sha256_of(file))]
    (store / ARTIFACT / "COMPLETE.json").write_text(finished.document(ARTIFACT, entries, about={}))
    there = S3Folder("s3://bucket/kept/")
    there.__dict__["store"] = Store(s3=FolderClient(tmp_path / "s3"), bucket="bucket")
    assert not bring(ARTIFACT, tmp_path / "other", there)
    send(ARTIFACT, store, there)
    assert bring(ARTIFACT, tmp_path / "other", there)
    assert Bucket(str(tmp_path / "other")).complete(ARTIFACT) == entries
    assert (tmp_path / "other" / ARTIFACT / "weights" / "tp0.safetensors").read_bytes() == b"shard"
