"""One bucket: what is absent is None, what is refused is an error."""

import io

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError, IncompleteReadError, ReadTimeoutError
from botocore.response import StreamingBody
from specdecode.benchmark.place import PlaceError, S3Folder
from specdecode.store import Store

from tests.specdecode.steps.aws_fake import FakeS3, denied


@pytest.fixture
def s3() -> FakeS3:
    return FakeS3({"runs/r/": b"", "runs/r/a.jsonl": b"1\n2\n3", "runs/r/b.json": b'{"x": 1}'})


def test_what_is_absent_is_no_error(s3: FakeS3) -> None:
    store = Store(s3=s3, bucket="b")
    assert (store.read("x"), store.read_json("x"), store.tags("x"), list(store.lines("x"))) == (None, None, None, [])


def test_what_is_there_is_read_by_line_and_listed_without_the_folder_itself(s3: FakeS3) -> None:
    store = Store(s3=s3, bucket="b")
    assert list(store.lines("runs/r/a.jsonl")) == [b"1", b"2", b"3"]
    assert store.read_json("runs/r/b.json") == {"x": 1}
    assert store.keys("runs/r/") == ["runs/r/a.jsonl", "runs/r/b.json"]
    assert {path: size for path, (size, _) in store.listing("runs/r/").items()} == {"a.jsonl": 5, "b.json": 8}


def test_what_is_refused_is_an_error(s3: FakeS3) -> None:
    s3.before = denied
    store = Store(s3=s3, bucket="b")
    for ask in (store.read, store.tags, lambda key: list(store.lines(key))):
        with pytest.raises(ClientError, match="AccessDenied"):
            ask("runs/r/b.json")


@pytest.mark.parametrize("error", [ReadTimeoutError(endpoint_url="https://b"), ConnectionClosedError(endpoint_url="b")])
def test_no_answer_is_the_error_that_botocore_says(
    s3: FakeS3, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def silent(**_: str) -> None:
        raise error

    monkeypatch.setattr(s3, "get_object", silent)
    with pytest.raises(type(error)):
        Store(s3=s3, bucket="b").read("k")


@pytest.mark.parametrize("at_most", [None, 99])
def test_an_answer_that_was_cut_off_is_no_object(
    s3: FakeS3, monkeypatch: pytest.MonkeyPatch, at_most: int | None
) -> None:
    """Half a lease would count as a damaged one, by which nobody holds a node."""
    monkeypatch.setattr(s3, "get_object", lambda **_: {"Body": StreamingBody(io.BytesIO(b'{"hol'), 20)})
    with pytest.raises(IncompleteReadError):
        Store(s3=s3, bucket="b").read("k", at_most=at_most)


def test_of_a_long_object_only_the_beginning_is_read(s3: FakeS3) -> None:
    assert Store(s3=s3, bucket="b").read("runs/r/a.jsonl", at_most=3) == b"1\n2"


def test_a_benchmark_takes_no_refused_file_for_an_absent_one(s3: FakeS3) -> None:
    folder = S3Folder("s3://b/runs/r")
    folder.__dict__["store"] = Store(s3=s3, bucket="b")
    assert folder.get("b.json") == b'{"x": 1}' and folder.get("c.json") is None
    s3.before = denied
    with pytest.raises(PlaceError, match=r"cannot read s3://b/runs/r/b\.json: .*AccessDenied.*without s3:ListBucket"):
        folder.get("b.json")
    with pytest.raises(PlaceError, match=r"cannot write s3://b/runs/r/b\.json"):
        folder.write("b.json", b"{}")
