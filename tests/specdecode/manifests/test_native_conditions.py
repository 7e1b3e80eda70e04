"""Every condition of the native plugin on trn2 is met by the pods of every preset; one that is broken is seen."""

from dataclasses import replace

import pytest
from specdecode.experiment import engine_of, load_preset, preset_names
from specdecode.experiment.capacity import Capacity
from specdecode.experiment.effective import SKIP
from specdecode.experiment.engine import Dialect
from specdecode.experiment.model import ServedExperiment

from tools.reference.native import CONDITIONS, Arm, arms, arms_of

ARMS = list(arms())
IDS = [f"{arm.preset}/{arm.name}" for arm in ARMS]


def test_every_arm_of_every_native_preset_is_held_against_them():
    native = [load_preset(name) for name in preset_names()]
    native = [each for each in native if engine_of(each).dialect is Dialect.NATIVE_PLUGIN]
    assert {(arm.preset, arm.name) for arm in ARMS} == {(e.name, v.name) for e in native for v in e.variants}
    assert len(native) >= 7
    assert all(condition.what and condition.source for condition in CONDITIONS)


@pytest.mark.parametrize("arm", ARMS, ids=IDS)
def test_each_is_met(arm: Arm):
    assert not [condition.what for condition in CONDITIONS if condition.met(arm) is None]


def test_a_deployment_with_efa_interfaces_meets_the_first_another_way():
    experiment = load_preset("gpt-oss-120b-eagle3")
    assert isinstance(experiment, ServedExperiment)
    found = arms_of(experiment.name, experiment, Capacity(node="trn2.48xlarge", efa_interfaces=True))
    assert {CONDITIONS[0].met(arm) for arm in found} == {"workers look, since the deployment has `efa_interfaces`"}


def without(arm: Arm, key: str) -> Arm:
    return replace(
        arm,
        serve={name: value for name, value in arm.serve.items() if name != key},
        compile={name: value for name, value in arm.compile.items() if name != key},
    )


def told(arm: Arm, **given: object) -> Arm:
    return replace(arm, serve={**arm.serve, **given}, compile={**arm.compile, **given})


def configured(arm: Arm, **given: object) -> Arm:
    own = arm.serve["--additional-config"]["neuron_config"]
    return told(arm, **{"--additional-config": {"neuron_config": {**own, **given}}})


def arm_of(preset: str, name: str) -> Arm:
    return ARMS[IDS.index(f"{preset}/{name}")]


GPT_OSS, DFLASH = arm_of("gpt-oss-120b-eagle3", "sd"), arm_of("llama-3.1-8b-dflash", "sd")
FP8, SMALL = arm_of("llama-3.3-70b-fp8-eagle3", "sd"), arm_of("llama-3.1-8b-eagle3-small", "sd")
BROKEN = {
    "EFA": without(GPT_OSS, f"${SKIP}"),
    "visible cores": told(GPT_OSS, **{"$NEURON_RT_VISIBLE_CORES": "0-15"}),
    "cores that a driver sets": replace(GPT_OSS, forgets=False),
    "prefix caching": configured(without(GPT_OSS, "--no-enable-prefix-caching"), kv_segment_size_buckets=None),
    "last token bucket": configured(GPT_OSS, num_batched_tokens_buckets=[256]),
    "last sequence bucket": configured(GPT_OSS, num_seqs_buckets=[1, 2]),
    "segment": told(configured(GPT_OSS, num_batched_tokens_buckets=[500]), **{"--max-num-batched-tokens": "500"}),
    "single shot": told(DFLASH, **{"--max-model-len": "32768", "--max-num-batched-tokens": "32768"}),
    "blocks of DFlash": without(DFLASH, "--num-gpu-blocks-override"),
    "blocks that differ": replace(DFLASH, compile={**DFLASH.compile, "--num-gpu-blocks-override": "600"}),
    "compilers": without(SMALL, "$NEURON_LIBTORCH_PARALLEL_COMPILE_WORKERS"),
    "patience": told(GPT_OSS, **{"$VLLM_NEURON_COMPILATION_TIMEOUT": "600"}),
    "restarts": replace(GPT_OSS, restarts="Never"),
    "own image": replace(GPT_OSS, image="ghcr.io/acme/engine:1"),
    "compiler flags": told(GPT_OSS, **{"$NEURON_CC_FLAGS": "-O1"}),
    "asynchronous": without(GPT_OSS, "--no-async-scheduling"),
    "FP8": configured(FP8, fp8_packed_kv=False),
    "MXFP4": without(GPT_OSS, "--hf-overrides"),
    "DFlash": without(DFLASH, "--disable-hybrid-kv-cache-manager"),
}


@pytest.mark.parametrize("arm", BROKEN.values(), ids=BROKEN)
def test_a_pod_that_breaks_one_is_seen(arm: Arm):
    assert [condition.what for condition in CONDITIONS if condition.met(arm) is None]
