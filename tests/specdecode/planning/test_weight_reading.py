"""Which way of loading is faster: the figures that docs/explanation/how-a-server-gets-its-weights.md states, and where
the answer turns."""

from functools import partial
from pathlib import Path

import pytest
from specdecode.experiment import load_engine, load_preset
from specdecode.experiment.capacity import COPY_STREAMS
from specdecode.experiment.engine import Engine, Reads
from specdecode.planning import weight_reading
from specdecode.planning.weight_reading import is_copied, reads_weights

mounted_seconds = partial(weight_reading.mounted_seconds, link_gbps=100)
copied_seconds = partial(weight_reading.copied_seconds, link_gbps=100)

PAGE = Path(__file__).parents[3] / "docs" / "explanation" / "how-a-server-gets-its-weights.md"
PRESETS = ("qwen3-32b", "qwen3-32b-latency", "qwen3-32b-tuning", "llama-3.1-405b")
ENGINES = ("0.9.1-sdk2.26.1", "0.16.0-sdk2.31.1", "0.29.0-sdk2.33.0")
GB = 1.073741824
"""In a GiB."""


def test_one_reader_of_the_mount_is_slower_than_a_copy_and_a_reader_of_that():
    assert mounted_seconds(61.1, readers=1) == pytest.approx(61.1 * GB / 0.75)
    # 16 copying readers could fill 12 GB/s, the disks take 2 (or 1); then one reader at 2.5.
    assert copied_seconds(61.1, readers=1, storage="instance-store") == pytest.approx(61.1 * GB * (0.5 + 0.4))
    assert copied_seconds(61.1, readers=1, storage="ebs") == pytest.approx(61.1 * GB * (1.0 + 0.4))
    assert mounted_seconds(100, readers=16) == pytest.approx(100 * GB / 12)
    assert mounted_seconds(100, readers=64) == mounted_seconds(100, readers=1000) == pytest.approx(100 * GB / 12.5)
    assert COPY_STREAMS == 16


@pytest.mark.parametrize("name", ENGINES)
def test_the_faster_way_is_taken_for_every_engine_and_disk(name):
    engine, experiment = load_engine(name), load_preset("qwen3-32b")
    assert is_copied(experiment, engine, "instance-store") is (engine.reads is Reads.ONE)
    assert not is_copied(experiment, engine, "ebs")


def with_config(engine: Engine, **config: object) -> bool:
    preset = load_preset("qwen3-32b")
    serving = preset.serving.model_copy(update={"neuron_config": config})
    experiment = preset.model_copy(update={"serving": serving})
    return reads_weights(experiment, experiment.variants[0], engine)


def test_a_sharded_artifact_has_the_weights_where_nxd_inference_makes_it():
    assert not with_config(load_engine("0.9.1-sdk2.26.1"), save_sharded_checkpoint=True)
    assert with_config(load_engine("0.9.1-sdk2.26.1"))
    assert not with_config(load_engine("0.16.0-sdk2.31.1"), save_sharded_checkpoint=True)
    assert with_config(load_engine("0.29.0-sdk2.33.0"), save_sharded_checkpoint=True), "it knows no such key"
    assert with_config(load_engine("rehearsal-vllm"))


@pytest.mark.parametrize("name", PRESETS)
def test_the_page_states_both_times_of_every_preset(name):
    preset = load_preset(name)
    gib = max(preset.weights_gib(variant) for variant in preset.variants)
    times = [mounted_seconds(gib, readers=1), copied_seconds(gib, readers=1, storage="instance-store")]
    minutes = " | ".join(f"{seconds / 60:.1f}" for seconds in times)
    assert f"| `{name}` | {gib:.0f} | {minutes} |" in PAGE.read_text("utf-8")
