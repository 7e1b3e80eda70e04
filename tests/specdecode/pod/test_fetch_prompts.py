"""A set of the Hugging Face hub reaches the bucket with its hash, or not at all. The hub's own library over HTTP."""

import json
from functools import partial

import pytest
from specdecode.exit_codes import PERMANENT, Exit
from specdecode.pod.bucket import Bucket
from specdecode.pod.fetch_prompts import fetch, main
from specdecode.pod.program import PodError
from specdecode.pod.sources import Hub
from specdecode.prompts import digest
from specdecode.untrusted import read_file

from tests.canaries import HUGGING_FACE
from tests.specdecode.steps.aws_fake import FakeS3

from .fake_hub import COMMIT, FakeHub

DATA = b"".join(json.dumps({"prompt": f"Which team answers {n}?"}).encode() + b"\n" for n in range(3))
FILE = "data/tickets.jsonl"
KEY = f"prompts/tickets@{digest(DATA)}.jsonl"


@pytest.fixture
def hub(monkeypatch, tmp_path):
    with FakeHub({}) as server:
        server.data = {FILE: DATA}
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", server.url)
        template = "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", server.url + template)
        monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", lambda _seconds: None)
        monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
        yield server


def fetched(
    *, file: str = FILE, revision: str = COMMIT, sha256: str = digest(DATA), token: str | None = None
) -> FakeS3:
    s3 = FakeS3()
    try:
        fetch(Bucket("b", s3), KEY, hub=Hub("acme/tickets", revision, token=token), file=file, sha256=sha256)
    except PodError:
        assert s3.uploads == [], "nothing is stored of what is refused"
        raise
    return s3


def refused(code: Exit, **given: str) -> str:
    with pytest.raises(PodError) as caught:
        fetched(**given)
    assert caught.value.code == code
    return str(caught.value)


def test_the_file_lies_in_the_bucket_as_it_is(hub, tmp_path):
    s3 = fetched()
    assert s3.objects == {KEY: DATA}
    assert s3.metadata[KEY]["source"] == f"acme/tickets@{COMMIT}"
    assert hub.tokens == {None}
    assert [path.name for path in tmp_path.iterdir()] in ([], ["hub"]), "no scratch folder is left"


def test_a_file_with_another_hash_is_named_with_both(hub):
    hub.data[FILE] = DATA + b"\n"
    said, changed = refused(Exit.CORRUPT), digest(hub.data[FILE])
    assert f"data/tickets.jsonl of acme/tickets@{COMMIT[:12]} has the SHA-256 {changed}, and {digest(DATA)}" in said
    assert Exit.CORRUPT in PERMANENT, "a Job does not try that again"


def test_what_is_not_there_any_more_is_said(hub):
    hub.data = {"data/other.jsonl": DATA}
    assert f"there is no data/tickets.jsonl of acme/tickets@{COMMIT[:12]} on the hub" in refused(Exit.NOT_FOUND)
    assert f"acme/tickets@{'a' * 40} is not on the hub" in refused(Exit.NOT_FOUND, revision="a" * 40)
    hub.failing = (404, "RepoNotFound")
    assert "is not on the hub" in refused(Exit.NOT_FOUND)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"{", "line 1"),
        (b"PAR1\x15\x04", "Parquet"),
        (b"\xff\xfe", "not UTF-8"),
        (b"[" * 100_000, "not JSON"),
        (b'{"prompt": "\\ud800"}', "surrogate"),
        (b"", "no prompt in it"),
        (b"<html>log in first</html>", "line 1"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 3\n", "line 1"),
    ],
)
def test_a_hostile_file_is_refused_though_its_hash_is_right(hub, data, says):
    hub.data[FILE] = data
    assert says in refused(Exit.CORRUPT, sha256=digest(data))


def test_a_file_that_is_too_large_is_not_begun(hub):
    hub.claimed_size = 2**40
    assert "larger than 64 MiB" in refused(Exit.CORRUPT)
    assert not [path for path in hub.asked if "/resolve/" in path]


def test_a_file_that_is_larger_than_the_hub_said_is_refused(hub, monkeypatch):
    hub.claimed_size = 5
    monkeypatch.setattr("specdecode.pod.fetch_prompts.read_file", partial(read_file, limit=10))
    assert "larger than" in refused(Exit.CORRUPT)


@pytest.mark.parametrize(
    ("status", "code", "token", "given"),
    [
        (403, "GatedRepo", HUGGING_FACE, Exit.NO_TOKEN),
        (500, "", None, Exit.UNAVAILABLE),
        (429, "", None, Exit.UNAVAILABLE),
    ],
)
def test_the_hubs_refusals_have_their_codes_and_no_token_in_them(hub, status, code, token, given):
    hub.failing = (status, code)
    assert HUGGING_FACE not in refused(given, **({"token": token} if token else {}))


def test_the_program_reads_its_command_line(hub, monkeypatch):
    s3 = FakeS3()
    monkeypatch.setattr("specdecode.pod.fetch_prompts.Bucket", lambda name: Bucket(name, s3))
    words = {
        "bucket": "b",
        "key": KEY,
        "sha256": digest(DATA),
        "repo": "acme/tickets",
        "revision": COMMIT,
        "file": FILE,
    }
    main([part for name, value in words.items() for part in (f"--{name}", value)])
    assert s3.objects == {KEY: DATA}
    with pytest.raises(PodError) as caught:
        main(["--bucket", "b"])
    assert caught.value.code == Exit.USAGE
