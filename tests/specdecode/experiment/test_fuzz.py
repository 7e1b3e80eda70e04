"""5,000 malformed documents: nothing but the validation error ever comes out.

Hypothesis draws seeds, and each seed makes ten documents: drawing nested values one by one takes a minute.
"""

from __future__ import annotations

import copy
import random
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from specdecode.experiment import ExperimentError, from_document, load_file, load_preset, preset_names

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
SEEDS = st.integers(0, 2**32)
fuzz = settings(max_examples=125, derandomize=True, deadline=None, database=None)
DOCUMENTS = 10


def attempt(read):
    """Whatever it is: an experiment, or the one error."""
    try:
        read()
    except ExperimentError as error:
        assert error.problems and all(problem.message and problem.fix for problem in error.problems)
        str(error)


def value(rng, depth=0):
    """A scalar, or a list or mapping of values."""
    kind = rng.random() + 0.15 * depth
    if kind < 0.25:
        return {rng.choice(KEYS): value(rng, depth + 1) for _ in range(rng.randrange(4))}
    if kind < 0.4:
        return [value(rng, depth + 1) for _ in range(rng.randrange(3))]
    return rng.choice(SCALARS)


def documents(seed):
    rng = random.Random(seed)
    for _ in range(DOCUMENTS):
        yield rng


@fuzz
@given(SEEDS)
def test_documents_from_nothing(seed):
    for rng in documents(seed):
        document = {rng.choice(KEYS): value(rng) for _ in range(rng.randrange(7))}
        attempt(lambda document=document: from_document(document))


@cache
def written(name: str):
    return load_preset(name).model_dump(mode="json")


def places(node, path=()):
    """Path of every place in a document but the document itself."""
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from places(inner, (*path, key))


@fuzz
@given(SEEDS)
def test_presets_with_one_place_replaced(seed):
    for rng in documents(seed):
        document = copy.deepcopy(written(rng.choice(["qwen3-32b", "llama-3.1-405b", "rehearsal"])))
        *parents, last = rng.choice(list(places(document)))
        node = document
        for key in parents:
            node = node[key]
        node[last] = value(rng)
        attempt(lambda document=document: from_document(document))


@fuzz
@given(SEEDS)
def test_overrides(seed):
    for rng in documents(seed):
        paths = [".".join(rng.choices([*KEYS, "0", "99", "", "sd"], k=rng.randrange(1, 5))) for _ in range(2)]
        overrides = {path: value(rng) for path in paths}
        attempt(lambda overrides=overrides: load_preset("rehearsal", overrides=overrides))


@fuzz
@given(SEEDS)
def test_files_of_any_bytes(tmp_path_factory, seed):
    path = tmp_path_factory.getbasetemp() / "fuzz.yaml"
    for rng in documents(seed):
        text = "".join(rng.choices(SIGNS, k=rng.randrange(50))).encode()
        path.write_bytes(text if rng.random() < 0.7 else rng.randbytes(40))
        attempt(lambda: load_file(path))


@pytest.mark.parametrize("name", preset_names())
def test_the_presets_themselves_pass(name):
    from_document(copy.deepcopy(written(name)))
