"""What an arm was really compiled with is kept, and told where it is not what was assumed."""

import json

import pytest
from specdecode.steps import report, used
from specdecode.steps.errors import DamagedFolder
from specdecode.steps.run import load_run

from tests.specdecode.steps.test_report import measure, measured, record
from tests.specdecode.steps.world import WAITING, World


def compiled_with(world: World, **changes: object) -> str:
    """Writes each arm's neuron_config.json as NxD Inference does, with `changes` in that of sd. Returns its key."""
    run = load_run(world.rt.store, "run-1")
    (key,) = {f"compiled/{arm.fingerprint}/{used.FILE}" for arm in run.wave(0).arms if arm.variant == "sd"}
    for arm in run.wave(0).arms:
        variant = run.plan.served.variant(arm.variant)
        whole = used.assumed(run.plan.served, variant, run.plan.engine) | (changes if arm.variant == "sd" else {})
        document = {"neuron_config": whole | {"torch_dtype": "bfloat16"}, "hidden_size": 64}
        world.s3.objects[f"compiled/{arm.fingerprint}/{used.FILE}"] = json.dumps(document).encode()
    return key


def notes(world: World, run_id: str = "run-1") -> list[str]:
    report.report(world.given(run_id), world.rt)
    return [
        note
        for note in json.loads(world.s3.objects[f"runs/{run_id}/report.json"])["notes"]
        if "neuron_config" in note or "assumed" in note
    ]


def test_each_difference_from_what_was_assumed_is_in_the_report_and_the_file_is_kept() -> None:
    world = measured()
    key = compiled_with(
        world, batch_size=99, on_device_sampling_config={"do_sample": True}, enable_fused_speculation=False
    )
    (told,) = notes(world)
    assert told.startswith("sd was compiled otherwise than assumed: batch_size is 99, assumed ")
    assert "enable_fused_speculation is false, assumed true" in told
    assert world.s3.objects["runs/run-1/used/sd.json"] == world.s3.objects[key]
    assert "otherwise than assumed" in world.s3.objects["runs/run-1/report.md"].decode()


def test_what_is_as_assumed_or_not_in_the_file_is_no_difference() -> None:
    world = measured()
    compiled_with(world)
    assert notes(world) == []


@pytest.mark.parametrize("data", [b"{", b"[1]", b"\xff", b'{"neuron_config": 3}'])
def test_a_damaged_file_ends_no_report(data: bytes) -> None:
    world = measured()
    world.s3.objects[compiled_with(world)] = data
    assert all("cannot be read" in note for note in notes(world))


WORDS = (
    "(EngineCore_0 pid=78) INFO 11-23 10:00:00 [core.py:98] Initializing a V1 LLM engine (v0.16.0) with config: "
    "model='/m/target', speculative_config={drafts}, tokenizer='/m/target', dtype=torch.{dtype}, max_seq_len={length}, "
    "load_format=auto, tensor_parallel_size=32, seed=0, enable_prefix_caching=True, enable_chunked_prefill=False, "
    "pooler_config=None, compilation_config={{'level': 0}}, kernel_config=KernelConfig(method='other', dtype=int8)"
)
"""As VllmConfig.__str__ of vLLM 0.16.0 has it, shortened."""
DRAFTS = "SpeculativeConfig(method='{}', model='/m/draft', num_spec_tokens={})"
USED = {"drafts": DRAFTS.format("eagle", 5), "length": 1024, "dtype": "float32"}


FLOAT32 = {"serving.extra_args": ["--dtype=float32"]}


class Logs(dict[str, str]):
    """Of pods, by a part of their names."""

    def get(self, name: str, default: str = "") -> str:  # type: ignore[override]
        return next((text for part, text in self.items() if f"-{part}-" in name), default)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, []),
        ({"drafts": DRAFTS.format("eagle", 3)}, ["num_spec_tokens is 3, assumed 5"]),
        ({"drafts": DRAFTS.format("eagle3", 5)}, ["method is eagle3, assumed eagle"]),
        ({"drafts": "None"}, ["speculative_config is None, assumed SpeculativeConfig"]),
        (
            {"dtype": "bfloat16", "length": 512},
            ["dtype is bfloat16, assumed float32; max_seq_len is 512, assumed 1024"],
        ),
    ],
)
def test_each_difference_of_what_a_server_said_is_in_the_report(
    world: World, changes: dict[str, object], told: list[str]
) -> None:
    world.cluster.logs = Logs(sd=f"starting\n{WORDS.format_map(USED | changes)}\nloading\n", base="starting\n")
    measure(world, request={"experiment": "rehearsal", "set": FLOAT32})
    assert notes(world) == [f"sd was served otherwise than assumed: {each}" for each in told]
    assert WORDS[60:120].encode() in world.s3.objects["runs/run-1/used/sd.txt"]
    assert "runs/run-1/used/base.txt" not in world.s3.objects


def test_a_resumed_run_knows_how_inherited_arms_were_served(world: World) -> None:
    """run-2 inherits half, with words of its own; run-3 inherits all of it and serves nothing."""

    def say(**changes: object) -> None:
        world.cluster.logs = Logs(sd=WORDS.format_map(USED | changes), base="starting\n")

    say(dtype="float16")
    world.plan("run-1", {"experiment": "rehearsal", "set": {"workload.rounds": 2, **FLOAT32}})
    for step in WAITING:
        world.finish(step)
    world.clean_up(DamagedFolder("x"))
    say(length=512)
    world.run_through("run-2", request={"resume": "run-1"})
    world.clean_up(DamagedFolder("x"), "run-2")
    raw = record("sd", "repeat-line", 0, 1.0, "run-2").model_dump_json().encode()
    world.s3.objects["runs/run-2/raw/sd/repeat-line.jsonl"] = raw + b"\n"
    world.plan("run-3", {"resume": "run-2"})
    for run_id in ("run-2", "run-3"):
        told = [each.partition("assumed: ")[2] for each in notes(world, run_id) if "served otherwise" in each]
        assert sorted(told) == ["dtype is float16, assumed float32", "max_seq_len is 512, assumed 1024"]


def test_settings_are_compared_at_any_depth() -> None:
    ours = {"a": {"b": 1, "c": [1, 2]}, "d": True, "--flag": 1}
    assert list(used.unlike(ours, {"a": {"b": 2, "c": [1, 2], "x": 0}, "d": True})) == ["a.b is 2, assumed 1"]
