"""Folders of the bucket to the disk, whole or some of their files."""

from pathlib import Path

import pytest
from specdecode.exit_codes import Exit
from specdecode.pod import fetch
from specdecode.pod.bucket import Bucket
from specdecode.pod.program import PodError

from tests.finished_folders import mark
from tests.specdecode.steps.aws_fake import FakeS3

FILES = {"config.json": b"{}", "deep/weights.safetensors": b"w" * 100, "tokenizer.json": b"[]"}


@pytest.fixture
def s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeS3:
    made = FakeS3({f"models/m/{path}": body for path, body in FILES.items()})
    made.objects["models/m/COMPLETE.json"] = mark("models/m/", FILES)
    monkeypatch.setattr(fetch, "Bucket", lambda name: Bucket(name, made))
    return made


def there() -> set[str]:
    return {path.relative_to("models/m").as_posix() for path in Path("models/m").rglob("*") if path.is_file()}


def test_all_files_and_the_mark_that_they_are_all(s3: FakeS3) -> None:
    fetch.main(["--bucket", "b", "--folder", "models/m/"])
    assert there() == {*FILES, "COMPLETE.json"}


def test_only_what_is_asked_for(s3: FakeS3) -> None:
    fetch.main(["--bucket", "b", "--folder", "models/m/", "--only", "tokenizer.json", "--only", "none.json"])
    assert there() == {"tokenizer.json", "COMPLETE.json"}


def test_a_folder_that_was_never_finished_is_refused_and_has_no_mark(s3: FakeS3) -> None:
    del s3.objects["models/m/COMPLETE.json"]
    with pytest.raises(PodError, match="never finished") as refused:
        fetch.main(["--bucket", "b", "--folder", "models/m/"])
    assert refused.value.code == Exit.INCOMPLETE and not Path("models/m").exists()


def test_damaged_bytes_are_refused_and_leave_no_mark(s3: FakeS3) -> None:
    s3.objects["models/m/config.json"] = b"[]"
    with pytest.raises(PodError, match="SHA-256"):
        fetch.main(["--bucket", "b", "--folder", "models/m/"])
    assert "COMPLETE.json" not in there()
