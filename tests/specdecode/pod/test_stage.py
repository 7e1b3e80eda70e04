"""Staging: file by file, verified, resumable, COMPLETE.json last."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from specdecode.exits import Exit
from specdecode.pod.bucket import Bucket
from specdecode.pod.program import PodError
from specdecode.pod.sources import HubSource, ImportSource, hub_token
from specdecode.pod.stage import main as stage_main
from specdecode.pod.stage import stage
from specdecode.pod.weights import main as fetch_main

from tests.canaries import HUGGING_FACE, WORD

from .fake_s3 import FakeS3

PREFIX = "models/acme--m@v1/"
FILES = {"imports/m/config.json": b"{}", "imports/m/sub/model.safetensors": b"weights"}


@pytest.fixture(autouse=True)
def _in_tmp(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_copies_every_file_and_finishes_last():
    s3 = FakeS3(FILES)
    bucket = Bucket("b", s3)
    stage(bucket, PREFIX, ImportSource(bucket, "imports/m/"), rescale=False)
    assert s3.objects[PREFIX + "sub/model.safetensors"] == b"weights"
    assert s3.uploads[-1] == PREFIX + "COMPLETE.json"
    complete = json.loads(s3.objects[PREFIX + "COMPLETE.json"])
    assert [(f["path"], f["size"]) for f in complete["files"]] == [("config.json", 2), ("sub/model.safetensors", 7)]
    assert complete["source"] == {"import_prefix": "imports/m/"}
    assert bucket.fetch_folder(PREFIX, Path("got")) == 9
    assert list(Path.cwd().iterdir()) == [Path.cwd() / "got"], "no scratch folder is left"


def test_second_try_uploads_only_what_is_missing_or_changed():
    s3 = FakeS3(FILES)
    bucket = Bucket("b", s3)
    stage(bucket, PREFIX, ImportSource(bucket, "imports/m/"), rescale=False)
    del s3.objects[PREFIX + "COMPLETE.json"], s3.objects[PREFIX + "config.json"]
    s3.objects["imports/m/sub/model.safetensors"] = b"WEIGHTS"
    s3.uploads.clear()
    stage(bucket, PREFIX, ImportSource(bucket, "imports/m/"), rescale=False)
    assert sorted(s3.uploads) == [PREFIX + "COMPLETE.json", PREFIX + "config.json", PREFIX + "sub/model.safetensors"]
    s3.uploads.clear()
    stage(bucket, PREFIX, ImportSource(bucket, "imports/m/"), rescale=False)
    assert s3.uploads == [PREFIX + "COMPLETE.json"]


def test_empty_import_prefix_says_what_to_do():
    bucket = Bucket("b", FakeS3())
    with pytest.raises(PodError, match="upload the model's files there first") as caught:
        stage(bucket, PREFIX, ImportSource(bucket, "imports/m/"), rescale=False)
    assert caught.value.code == Exit.NOT_FOUND


def test_denied_is_told_apart():
    s3 = FakeS3(FILES)
    bucket = Bucket("b", s3)
    source = ImportSource(bucket, "imports/m/")
    s3.denied = True
    with pytest.raises(PodError) as caught:
        stage(bucket, PREFIX, source, rescale=False)
    assert caught.value.code == Exit.DENIED


def test_a_changed_byte_in_the_bucket_is_found_on_fetch():
    s3 = FakeS3(FILES)
    bucket = Bucket("b", s3)
    stage(bucket, PREFIX, ImportSource(bucket, "imports/m/"), rescale=False)
    s3.objects[PREFIX + "config.json"] = b"[]"
    with pytest.raises(PodError) as caught:
        bucket.fetch_folder(PREFIX, Path("got"))
    assert caught.value.code == Exit.CORRUPT


def test_unfinished_folder_is_refused():
    with pytest.raises(PodError, match="never finished") as caught:
        Bucket("b", FakeS3({PREFIX + "config.json": b"{}"})).fetch_folder(PREFIX, Path("got"))
    assert caught.value.code == Exit.INCOMPLETE


class FakeHub:
    """huggingface_hub as far as it is used."""

    class errors:
        class HfHubHTTPError(OSError): ...

        class RepositoryNotFoundError(HfHubHTTPError): ...

        class GatedRepoError(RepositoryNotFoundError): ...

        class RevisionNotFoundError(HfHubHTTPError): ...

        class EntryNotFoundError(Exception): ...

    def __init__(self, files: dict[str, bytes], *, lie: bool = False, error: type[Exception] | None = None) -> None:
        self.repo, self.lie, self.error = files, lie, error

    def HfApi(self, token):
        return self

    def model_info(self, model, *, revision, files_metadata):
        import hashlib

        NS = SimpleNamespace

        if self.error:
            raise self.error(
                f"Invalid header 'Bearer {HUGGING_FACE}' at https://cdn.host/a?X-Amz-Signature={HUGGING_FACE}&x=1"
            )
        lfs = lambda data: NS(sha256="0" * 64 if self.lie else hashlib.sha256(data).hexdigest())  # noqa: E731
        return NS(
            sha="c0ffee",
            siblings=[
                NS(rfilename=n, size=len(d), blob_id=n, lfs=lfs(d) if n.endswith(".safetensors") else None)
                for n, d in self.repo.items()
            ],
        )

    def hf_hub_download(self, model, path, *, revision, local_dir, token):
        assert revision == "c0ffee", "the resolved commit is downloaded, whatever moves meanwhile"
        target = Path(local_dir) / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(self.repo[path])
        return str(target)


HUB = {
    "config.json": b"{}",
    "a.safetensors": b"aa",
    "pytorch_model.bin": b"b",
    "original/c.safetensors": b"c",
    "README.md": b"d",
}


def test_hub_takes_what_an_engine_loads_and_records_the_commit():
    s3 = FakeS3()
    stage(Bucket("b", s3), PREFIX, HubSource("acme/m", "main", token=None, hub=FakeHub(HUB)), rescale=False)
    assert sorted(k.removeprefix(PREFIX) for k in s3.objects) == ["COMPLETE.json", "a.safetensors", "config.json"]
    assert json.loads(s3.objects[PREFIX + "COMPLETE.json"])["source"]["commit"] == "c0ffee"


@pytest.mark.parametrize("weights", ["pytorch_model.bin", "head/pytorch_model.bin", "model.pt"])
def test_a_head_that_the_engine_cannot_read_is_refused_before_a_byte_is_moved(weights):
    source = HubSource("acme/m", "main", token=None, hub=FakeHub({"config.json": b"{}", weights: b"b"}))
    s3 = FakeS3()
    with pytest.raises(PodError, match=rf"has no weights in safetensors \(only {weights}\).*import_prefix") as caught:
        stage(Bucket("b", s3), PREFIX, source, rescale=False, safetensors=True)
    assert caught.value.code == Exit.CORRUPT and s3.objects == {}
    stage(Bucket("b", s3), PREFIX, source, rescale=False)
    assert PREFIX + weights in s3.objects, "other engines read it"


def test_what_was_staged_for_another_engine_is_judged_too(monkeypatch):
    s3 = FakeS3({"imports/m/pytorch_model.bin": b"b"})
    bucket = Bucket("b", s3)
    stage(bucket, PREFIX, ImportSource(bucket, "imports/m/"), rescale=False)
    monkeypatch.setattr("specdecode.pod.stage.Bucket", lambda name: bucket)
    monkeypatch.setattr("specdecode.pod.weights.Bucket", lambda name: bucket)
    again = ["--bucket", "b", "--prefix", PREFIX, "--import-prefix", "imports/m/"]
    stage_main(again)
    with pytest.raises(PodError, match="no weights in safetensors"):
        stage_main([*again, "--safetensors"])
    fetching = ["--bucket", "b", "--artifact", "compiled/0a/", "--model", PREFIX]
    with pytest.raises(PodError, match="no weights in safetensors"):
        fetch_main([*fetching, "--safetensors"])
    assert not Path("models").exists(), "nothing was fetched"
    fetch_main(fetching)


def test_hub_bytes_that_differ_from_the_promise_are_refused():
    source = HubSource("acme/m", "main", token=None, hub=FakeHub(HUB, lie=True))
    with pytest.raises(PodError) as caught:
        stage(Bucket("b", FakeS3()), PREFIX, source, rescale=False)
    assert caught.value.code == Exit.CORRUPT


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (FakeHub.errors.GatedRepoError, Exit.NO_TOKEN),
        (FakeHub.errors.RepositoryNotFoundError, Exit.NOT_FOUND),
        (FakeHub.errors.HfHubHTTPError, Exit.UNAVAILABLE),
    ],
)
def test_hub_errors_have_their_own_codes(error, code):
    source = HubSource("acme/m", "main", token=HUGGING_FACE, hub=FakeHub(HUB, error=error))
    with pytest.raises(PodError) as caught:
        stage(Bucket("b", FakeS3()), PREFIX, source, rescale=False)
    assert caught.value.code == code
    assert WORD not in str(caught.value)


def test_signed_queries_of_urls_are_cut_off():
    source = HubSource("acme/m", "main", token=None, hub=FakeHub(HUB, error=FakeHub.errors.HfHubHTTPError))
    with pytest.raises(PodError, match=r"https://cdn\.host/a\?…"):
        source.files()


@pytest.mark.parametrize(
    "stored",
    [f"{HUGGING_FACE}\nsecond", f"HF_TOKEN {HUGGING_FACE}", f'{{"token":"{HUGGING_FACE}"}}', f"{HUGGING_FACE}é"],
)
@pytest.mark.parametrize("variable", ["HF_TOKEN", "HF_TOKEN_SECRET"])
def test_a_secret_that_is_no_token_is_refused_and_not_repeated(stored, variable, monkeypatch):
    """A library would say `Invalid header value: 'Bearer …'`, and the pod's log is kept."""
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setenv(variable, stored if variable == "HF_TOKEN" else "specdecode/huggingface-token")
    client = SimpleNamespace(get_secret_value=lambda SecretId: {"SecretString": stored})
    monkeypatch.setattr("specdecode.aws.client", lambda _service: client)
    with pytest.raises(PodError, match="is not a token alone") as caught:
        hub_token()
    assert caught.value.code == Exit.NO_TOKEN
    assert WORD not in str(caught.value)
    monkeypatch.setenv("HF_TOKEN", f"{HUGGING_FACE}")
    assert hub_token() == HUGGING_FACE
