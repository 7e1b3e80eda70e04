"""Malformed documents and overrides: nothing but the validation error ever comes out, and what is valid is written
out and read back as it was.

Hypothesis draws generators, and each makes ten documents: drawing nested values one by one takes a minute.
"""

import copy
import tempfile
from functools import cache
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from specdecode.experiment import ExperimentError, from_document, load_file, load_preset, parse_overrides, to_yaml
from specdecode.experiment.documents import parse_yaml

from tests.fuzz.profile import RNGS, fuzz, places, soon

KEYS = [
    *("name", "engine", "extends", "target", "serving", "variants", "workload", "cases", "sweep", "speculation"),
    *("draft", "id", "label", "neuron_config", "env", "temperature", "deadlines", "size_gib", "requests", "revision"),
    *("import_prefix", "{0..9}", "method", "compare_to"),
]
SCALARS = [
    None, True, False, 0, 1, -1, 7, 10**30, 0.5, -0.0, 1e308, float("inf"), float("nan"), "", " ", "x", "base", "sd",
    "qwen3-32b", "rehearsal", "{draft}", "layers.{0..9999}.x", "\ud800", "\x00", "a\nb", "é" * 50, "0.9.1-sdk2.26.1",
    "../../etc/passwd", "imports/../x/", "fused-draft", "count", b"bytes", {1, 2}, (1, 2), {1: 2}, object(),
]  # fmt: skip
SIGNS = "{}[]:,-&*!|>'\"#%@ \n\tab01.~<=?é"
DOCUMENTS = 10


def attempt(read):
    """Whatever it is: an experiment that survives being written out, or the one error, of readable size."""
    with soon():
        try:
            experiment = read()
        except ExperimentError as error:
            assert error.problems and all(problem.message and problem.fix for problem in error.problems)
            str(error).encode("utf-8")
            assert len(str(error)) < 50_000
        else:
            assert from_document(parse_yaml(to_yaml(experiment), origin="test")) == experiment


def value(rng, depth=0):
    """A scalar, or a list or mapping of values."""
    kind = rng.random() + 0.15 * depth
    if kind < 0.25:
        return {rng.choice(KEYS): value(rng, depth + 1) for _ in range(rng.randrange(4))}
    if kind < 0.4:
        return [value(rng, depth + 1) for _ in range(rng.randrange(3))]
    return rng.choice(SCALARS)


@fuzz(25)
@given(RNGS)
def test_documents_from_nothing(rng):
    for _ in range(DOCUMENTS):
        document = {rng.choice(KEYS): value(rng) for _ in range(rng.randrange(7))}
        attempt(lambda document=document: from_document(document))


@cache
def written(name: str):
    return load_preset(name).model_dump(mode="json")


@fuzz(6)
@given(RNGS)
def test_presets_with_one_place_replaced(rng):
    for _ in range(DOCUMENTS):
        document = copy.deepcopy(written(rng.choice(["qwen3-32b", "llama-3.1-405b", "rehearsal"])))
        *parents, last = rng.choice(list(places(document)))
        node = document
        for key in parents:
            node = node[key]
        node[last] = value(rng)
        attempt(lambda document=document: from_document(document))


@fuzz(25)
@given(RNGS)
def test_overrides(rng):
    for _ in range(DOCUMENTS):
        paths = [".".join(rng.choices([*KEYS, "0", "99", "", "sd"], k=rng.randrange(1, 5))) for _ in range(2)]
        overrides = {path: value(rng) for path in paths}
        attempt(lambda overrides=overrides: load_preset("rehearsal", overrides=overrides))


PIECES = [
    *KEYS,
    *("0", "99", "-1", "sd", "base", "=", "=", ".", "..", "[", "]", "{", "}", "1", "true", "*a", "&a"),
    *("!!python/object:os.system", "\n", "\x00", "é", "٣", "\ud800", "~", ":", ","),
]


@fuzz(25)
@given(st.lists(st.lists(st.sampled_from(PIECES), max_size=8).map(".".join), max_size=3))
def test_overrides_as_they_are_typed(settings):
    attempt(lambda: load_preset("rehearsal", overrides=parse_overrides(settings)))


@fuzz(25)
@given(st.text(max_size=40), st.text(max_size=200))
def test_an_override_of_any_text(path, value):
    attempt(lambda: load_preset("rehearsal", overrides=parse_overrides([f"{path}={value}"])))


@fuzz(30)
@given(RNGS)
def test_files_of_any_bytes(rng):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fuzz.yaml"
        for _ in range(DOCUMENTS):
            text = "".join(rng.choices(SIGNS, k=rng.randrange(50))).encode()
            path.write_bytes(text if rng.random() < 0.7 else rng.randbytes(40))
            attempt(lambda: load_file(path))


@fuzz(6)
@given(RNGS)
def test_presets_as_text_with_one_piece_replaced(rng):
    for _ in range(DOCUMENTS):
        text = to_yaml(load_preset(rng.choice(["rehearsal", "qwen3-32b"])))
        at, length = rng.randrange(len(text)), rng.randrange(8)
        piece = "".join(rng.choices([*SIGNS, *PIECES], k=rng.randrange(6)))
        changed = text[:at] + piece + text[at + length :]
        attempt(lambda changed=changed: from_document(parse_yaml(changed, origin="test")))
