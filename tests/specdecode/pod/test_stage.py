"""Staging: file by file, verified, resumable, COMPLETE.json last."""

import json
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace

import pytest
from specdecode.exit_codes import Exit
from specdecode.pod.bucket import Bucket
from specdecode.pod.fetch import main as fetch_main
from specdecode.pod.program import PodError
from specdecode.pod.sources import HubSource, ImportSource, hub_token
from specdecode.pod.stage import main as stage_main
from specdecode.pod.stage import stage

from tests.canaries import HUGGING_FACE, WORD
from tests.specdecode.steps.aws_fake import FakeS3, denied

from .fake_hub import COMMIT, FakeHub

PREFIX = "models/acme--m@v1/"
FILES = {"imports/m/config.json": b"{}", "imports/m/sub/model.safetensors": b"weights"}


def staged(s3: FakeS3) -> Bucket:
    """The bucket, once the import is staged."""
    bucket = Bucket("b", s3)
    stage(bucket, PREFIX, ImportSource(bucket, "imports/m/"), rescale=False)
    return bucket


def test_copies_every_file_and_finishes_last():
    bucket = staged(s3 := FakeS3(FILES))
    assert s3.objects[PREFIX + "sub/model.safetensors"] == b"weights"
    assert s3.uploads[-1] == PREFIX + "COMPLETE.json"
    complete = json.loads(s3.objects[PREFIX + "COMPLETE.json"])
    assert [(f["path"], f["size"]) for f in complete["files"]] == [("config.json", 2), ("sub/model.safetensors", 7)]
    assert complete["source"] == {"import_prefix": "imports/m/"}
    assert bucket.fetch_folder(PREFIX, Path("got")) == 9
    assert list(Path.cwd().iterdir()) == [Path.cwd() / "got"], "no scratch folder is left"


def test_second_try_uploads_only_what_is_missing_or_changed():
    staged(s3 := FakeS3(FILES))
    del s3.objects[PREFIX + "COMPLETE.json"], s3.objects[PREFIX + "config.json"]
    s3.objects["imports/m/sub/model.safetensors"] = b"WEIGHTS"
    s3.uploads.clear()
    staged(s3)
    assert sorted(s3.uploads) == [PREFIX + "COMPLETE.json", PREFIX + "config.json", PREFIX + "sub/model.safetensors"]
    s3.uploads.clear()
    staged(s3)
    assert s3.uploads == [PREFIX + "COMPLETE.json"]


def test_the_header_of_weights_has_a_hash_of_its_own_on_the_first_try_and_on_the_second():
    s3 = FakeS3(FILES | {"imports/m/sub/model.safetensors": (header := b"\x04" + bytes(7) + b"{}  ") + b"weights"})
    for _ in range(2):
        staged(s3)
        listed = json.loads(s3.objects.pop(PREFIX + "COMPLETE.json"))["files"]
        assert [file.get("header") for file in listed] == [None, sha256(header).hexdigest()]


@pytest.mark.parametrize("damaged", [b"Weights", b"w", b"weights and more"], ids=["flipped", "truncated", "longer"])
def test_a_file_that_kept_its_tag_and_not_its_bytes_is_brought_again(damaged):
    staged(s3 := FakeS3(FILES))
    s3.objects[PREFIX + "sub/model.safetensors"] = damaged
    del s3.objects[PREFIX + "COMPLETE.json"]
    s3.uploads.clear()
    bucket = staged(s3)
    assert s3.uploads == [PREFIX + "sub/model.safetensors", PREFIX + "COMPLETE.json"]
    assert bucket.fetch_folder(PREFIX, Path("got")) == 9, "every byte is as COMPLETE.json says"


def test_empty_import_prefix_says_what_to_do():
    with pytest.raises(PodError, match="upload the model's files there first") as caught:
        staged(FakeS3())
    assert caught.value.code == Exit.NOT_FOUND


def test_denied_is_told_apart():
    s3 = FakeS3(FILES)
    s3.before = denied
    with pytest.raises(PodError) as caught:
        staged(s3)
    assert caught.value.code == Exit.DENIED


def test_a_changed_byte_in_the_bucket_is_found_on_fetch():
    bucket = staged(s3 := FakeS3(FILES))
    s3.objects[PREFIX + "config.json"] = b"[]"
    with pytest.raises(PodError) as caught:
        bucket.fetch_folder(PREFIX, Path("got"))
    assert caught.value.code == Exit.DAMAGED_MODEL


def test_unfinished_folder_is_refused():
    with pytest.raises(PodError, match="never finished") as caught:
        Bucket("b", FakeS3({PREFIX + "config.json": b"{}"})).fetch_folder(PREFIX, Path("got"))
    assert caught.value.code == Exit.INCOMPLETE


HUB = {
    "config.json": b"{}",
    "a.safetensors": b"aa",
    "pytorch_model.bin": b"b",
    "original/c.safetensors": b"c",
    "README.md": b"d",
}


@pytest.fixture
def hub(monkeypatch, tmp_path):
    with FakeHub(HUB) as server:
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", server.url)
        template = "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", server.url + template)
        monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
        yield server


def test_hub_takes_what_an_engine_loads_and_records_the_commit(hub):
    s3 = FakeS3()
    stage(Bucket("b", s3), PREFIX, HubSource("acme/m", "main", token=None), rescale=False)
    assert sorted(k.removeprefix(PREFIX) for k in s3.objects) == ["COMPLETE.json", "a.safetensors", "config.json"]
    assert s3.objects[PREFIX + "a.safetensors"] == b"aa"
    assert json.loads(s3.objects[PREFIX + "COMPLETE.json"])["source"]["commit"] == COMMIT
    asked = {path.split("/resolve/")[1].split("/")[0] for path in hub.asked if "/resolve/" in path}
    assert asked == {COMMIT}, "the resolved commit is downloaded, whatever moves meanwhile"
    assert hub.tokens == {None}


def test_the_token_goes_to_the_hub_and_to_no_other_host(hub):
    stage(Bucket("b", FakeS3()), PREFIX, HubSource("acme/m", "main", token=HUGGING_FACE), rescale=False)
    assert hub.tokens == {f"Bearer {HUGGING_FACE}"}
    assert hub.tokens_elsewhere == {None}, "large files are served by another host, under a signed address"


@pytest.mark.parametrize("weights", ["pytorch_model.bin", "head/pytorch_model.bin", "model.pt"])
def test_a_head_that_the_engine_cannot_read_is_refused_before_a_byte_is_moved(hub, weights):
    hub.files = {"config.json": b"{}", weights: b"b"}
    source = HubSource("acme/m", "main", token=None)
    s3 = FakeS3()
    with pytest.raises(PodError, match=rf"has no weights in safetensors \(only {weights}\).*import_prefix") as caught:
        stage(Bucket("b", s3), PREFIX, source, rescale=False, safetensors=True)
    assert caught.value.code == Exit.CORRUPT and s3.objects == {}
    stage(Bucket("b", s3), PREFIX, source, rescale=False)
    assert PREFIX + weights in s3.objects, "other engines read it"


def test_what_was_staged_for_another_engine_is_judged_too(monkeypatch):
    bucket = staged(FakeS3({"imports/m/pytorch_model.bin": b"b"}))
    monkeypatch.setattr("specdecode.pod.stage.Bucket", lambda name: bucket)
    monkeypatch.setattr("specdecode.pod.fetch.Bucket", lambda name: bucket)
    again = ["--bucket", "b", "--prefix", PREFIX, "--import-prefix", "imports/m/"]
    stage_main(again)
    with pytest.raises(PodError, match="no weights in safetensors"):
        stage_main([*again, "--safetensors"])
    fetching = ["--bucket", "b", "--artifact", "compiled/0a/", "--folder", PREFIX]
    with pytest.raises(PodError, match="no weights in safetensors"):
        fetch_main([*fetching, "--safetensors"])
    assert not Path("models").exists(), "nothing was fetched"
    fetch_main(fetching)


def test_hub_bytes_that_differ_from_the_promise_are_refused(hub):
    hub.lie = True
    with pytest.raises(PodError) as caught:
        stage(Bucket("b", FakeS3()), PREFIX, HubSource("acme/m", "main", token=None), rescale=False)
    assert caught.value.code == Exit.CORRUPT


@pytest.mark.parametrize("where", ["listing", "file"])
@pytest.mark.parametrize(
    ("status", "code", "token", "given", "says"),
    [
        (403, "GatedRepo", HUGGING_FACE, Exit.NO_TOKEN, "is gated: accept its licence .*a token was given"),
        (401, "GatedRepo", None, Exit.NO_TOKEN, "is gated: .*no token was given"),
        (401, "", HUGGING_FACE, Exit.NO_TOKEN, "refused the token"),
        (404, "RepoNotFound", None, Exit.NOT_FOUND, "is not on the hub"),
        (404, "RevisionNotFound", None, Exit.NOT_FOUND, "is not on the hub"),
        (404, "EntryNotFound", None, Exit.NOT_FOUND, "is not on the hub"),
        (400, "", None, Exit.UNAVAILABLE, "hub failed"),
        (None, "", None, Exit.UNAVAILABLE, "hub failed"),
    ],
)
def test_hub_errors_have_their_own_codes(hub, monkeypatch, where, status, code, token, given, says):
    """As the library itself takes the hub's answers; without a status the network is gone."""
    monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", lambda _seconds: None)
    source = HubSource("acme/m", "main", token=token)
    (file, *_) = source.files()
    hub.failing = (status, code)
    with pytest.raises(PodError, match=says) as caught:
        source.files() if where == "listing" else source.fetch(file, Path("scratch"))
    assert caught.value.code == given
    assert WORD not in str(caught.value)


def test_signed_queries_of_urls_are_cut_off(hub):
    source = HubSource("acme/m", "main", token=None)
    weights = next(file for file in source.files() if file.path == "a.safetensors")
    hub.signed_refused = True
    with pytest.raises(PodError, match=r"/signed/a\.safetensors\?…") as caught:
        source.fetch(weights, Path("scratch"))
    assert "X-Amz-Signature" not in str(caught.value)


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
