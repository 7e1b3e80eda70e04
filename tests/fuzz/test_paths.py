"""Keys and names of files from outside: nothing is written but below the folder that was meant."""

import contextlib
import hashlib
import json
import random
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from specdecode import names, s3_keys
from specdecode.analysis.report import write_report
from specdecode.manifests.naming import RenderContext
from specdecode.measures.llmperf_files import stem_of
from specdecode.pod import tiny_model
from specdecode.pod.bucket import Bucket
from specdecode.pod.program import PodError
from specdecode.pod.sources import ImportSource
from specdecode.untrusted import Unreadable, below

from tests.finished_folders import entries
from tests.fuzz.profile import RNGS, fuzz, soon
from tests.specdecode.steps.aws_fake import FakeS3
from tests.untrusted.hostile import measured

LEAVES = st.none() | st.integers() | st.text(max_size=9)
PARTS = [
    *("..", ".", "", "a", "b.txt", "x y", "é", "con", "~", "-rf", "*", "$(touch x)", "\\", "..\\..", "\x00", "a\nb"),
    *("%2e%2e", "..%2f", "．．", "a" * 300, "\ud800", " ..", ".. ", "C:", "etc", "passwd"),
]
CONTENT = b"pwned"


def path(rng: random.Random) -> str:
    return rng.choice(["", "", "/", "//", "\\", "file:"]) + "/".join(rng.choices(PARTS, k=rng.randrange(1, 6)))


def outside(root: Path, folder: Path) -> list[Path]:
    return [found for found in root.rglob("*") if found.is_file() and not found.is_relative_to(folder)]


@fuzz(300)
@given(RNGS)
def test_what_is_below_any_folder_is_below_this_one(rng: random.Random) -> None:
    for _ in range(10):
        text = path(rng)
        try:
            taken = below(text)
        except Unreadable:
            continue
        root = Path("/one/two/three")
        assert (root / taken).is_relative_to(root)
        assert ".." not in (root / taken).parts
        assert "\x00" not in taken
        taken.encode("utf-8")


@fuzz(200)
@given(st.text(max_size=60))
def test_nor_does_any_text_get_out(text: str) -> None:
    with contextlib.suppress(Unreadable):
        assert (Path("/one/two") / below(text)).is_relative_to("/one/two")


@fuzz(60)
@given(RNGS)
def test_a_folder_that_is_fetched_stays_in_its_folder(rng: random.Random) -> None:
    with tempfile.TemporaryDirectory() as name, soon(10):
        root = Path(name)
        folder = root / "one" / "two" / "three"
        s3 = FakeS3()
        entries = []
        for _ in range(rng.randrange(1, 4)):
            where = path(rng) if rng.random() < 0.8 else str(root / "absolute")
            entries.append({"path": where, "size": len(CONTENT), "sha256": hashlib.sha256(CONTENT).hexdigest()})
            s3.objects["models/m/" + where] = CONTENT
        document = {"files": entries if rng.random() < 0.9 else rng.choice([None, 5, [5], [{}], {"a": 1}])}
        s3.objects["models/m/COMPLETE.json"] = json.dumps(document).encode()
        with contextlib.suppress(PodError):
            Bucket("b", s3).fetch_folder("models/m/", folder)
        assert outside(root, folder) == []


@fuzz(60)
@given(RNGS)
def test_weights_that_are_imported_stay_in_their_folder(rng: random.Random) -> None:
    with tempfile.TemporaryDirectory() as name, soon(10):
        root = Path(name)
        folder = root / "one" / "two" / "three"
        s3 = FakeS3()
        for _ in range(3):
            s3.objects["imports/m/" + path(rng)] = CONTENT
        with contextlib.suppress(PodError):
            source = ImportSource(Bucket("b", s3), "imports/m/")
            for file in source.files():
                source.fetch(file, folder)
        assert outside(root, folder) == []


@fuzz(60)
@given(
    st.binary(max_size=60),
    st.recursive(LEAVES, lambda each: st.lists(each) | st.dictionaries(st.just("layer_ids"), each), max_leaves=9),
)
def test_a_tiny_model_of_anything_is_made_or_refused(raw: bytes, found: object) -> None:
    """`raw` in place of a file of weights, `found` as its header and in the configuration."""
    text = json.dumps({"a": found, "b.0.c": {"dtype": "F32", "shape": found, "data_offsets": [0, 4]}}).encode()
    config = json.dumps({"num_hidden_layers": 3, "layer_ids": found, "layer_types": found, "x": found}).encode()
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name), soon(10):
        for weights in (raw, len(text).to_bytes(8, "little") + text + raw):
            files = {"config.json": config, "a.safetensors": weights}
            bucket = Bucket("b", FakeS3({f"models/m/{path}": data for path, data in files.items()}))
            bucket.finish("models/m/", entries(files), about={})
            for is_head in (False, True):
                with contextlib.suppress(PodError):
                    tiny_model.make(bucket, "models/m/", layers=2, is_head=is_head)


@fuzz(100)
@given(st.text(max_size=100) | RNGS.map(path))
def test_a_run_id_is_one_folder(text: str) -> None:
    comparison = measured("x")
    if names.is_run_id(text):
        assert "/" not in s3_keys.run_prefix(text).removeprefix("runs/").removesuffix("/")
        assert Path(text).name == text not in (".", "..")
    try:
        RenderContext(run_id=text, bucket="b", bundle_uri="s3://b/k", bundle_sha256="0" * 64, region="r")
    except ValidationError:
        assert not names.is_run_id(text)
    else:
        assert names.is_run_id(text)
    document = {**json.loads(comparison.json_document()), "run_id": text}
    with contextlib.suppress(ValidationError):
        taken = type(comparison).model_validate_json(json.dumps(document)).run_id
        assert Path("results", taken).parent == Path("results")


@fuzz(150)
@given(st.text(max_size=400))
def test_names_made_of_texts_are_one_part_of_a_path(text: str) -> None:
    stem = stem_of(text, 1, 2)
    assert len(stem.encode("utf-8")) + len("_individual_responses.json.partial") <= 255
    for made in (stem, s3_keys.slug(text)):
        assert "/" not in made
        assert "\x00" not in made
        assert made not in (".", "..") or made == text


def test_a_report_lies_in_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "one" / "two"
    write_report(measured("../../x"), folder)
    assert outside(tmp_path, folder) == []
    assert len(list(folder.iterdir())) == 4
