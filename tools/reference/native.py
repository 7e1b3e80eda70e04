"""docs/reference/native-conditions.md: what the native plugin needs on trn2, and where our pods meet it.

A condition is a fact that upstream's source, its documentation or somebody who ran the plugin on trn2 wrote down. It is
held against the pods that are rendered for each preset, not against the preset's file.
"""

import json
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from specdecode.experiment import engine_of, load_preset, preset_names
from specdecode.experiment.capacity import Capacity
from specdecode.experiment.effective import SKIP
from specdecode.experiment.engine import Dialect
from specdecode.experiment.model import ServedExperiment
from specdecode.experiment.rules.engine import BATCHED, DEFAULT_BATCHED
from specdecode.experiment.rules.native import reading
from specdecode.kubernetes.pods import RESTARTS_ALLOWED
from specdecode.manifests import RenderContext, compile_job, serving
from specdecode.planning import Inventory, make_plan

from tools.reference import page, table

INTRODUCTION = """For users of the native plugin: what it needs on trn2, from its source (vllm-project/vllm-neuron), its
documentation, and people who ran it there. Each line is held against the pods that are rendered for each preset: a cell
says how they meet it, or why it does not apply; what differs between presets has a letter, and stands in the second
table. None of it was run by us."""
FEW_CPUS = 32
"""Below it eight compilers are more than a node has vCPUs for."""


@dataclass(frozen=True)
class Arm:
    """What one arm's two pods are given: `serve` finds the artifact that `compile` has made."""

    preset: str
    experiment: ServedExperiment
    name: str
    serve: dict[str, Any]
    """Arguments of its server, and its environment as $NAME."""
    compile: dict[str, Any]
    forgets: bool
    """Whether both pods unset NEURON_RT_VISIBLE_CORES."""
    image: str
    restarts: str
    """The serving pod's restartPolicy."""

    def config(self, key: str) -> Any:
        return self.serve["--additional-config"]["neuron_config"].get(key)

    def number(self, flag: str, otherwise: int) -> int:
        return int(self.serve.get(flag, otherwise))


@dataclass(frozen=True)
class Condition:
    """One fact. `met`: how an arm meets it, or why it need not; None if it breaks it."""

    what: str
    source: str
    met: Callable[[Arm], str | None]


def arms() -> Iterator[Arm]:
    """Every arm of every preset on the native plugin, as it is rendered."""
    for name in preset_names():
        experiment = load_preset(name)
        engine = engine_of(experiment)
        if engine.dialect is Dialect.NATIVE_PLUGIN and isinstance(experiment, ServedExperiment):
            yield from arms_of(name, experiment, Capacity(price_per_node_hour=1))


def arms_of(name: str, experiment: ServedExperiment, capacity: Capacity) -> Iterator[Arm]:
    """The arms of one preset, in a deployment with that capacity."""
    plan = make_plan(experiment, engine_of(experiment), inventory=Inventory(), capacity=capacity)
    ctx = RenderContext(
        run_id="conditions-20261123-120000-ab12",
        bucket="artifacts",
        bundle_uri="s3://assets/bundle.zip",
        bundle_sha256="ab" * 32,
        region="us-east-2",
    )
    for arm in {arm.variant: arm for wave in plan.waves for arm in wave.arms}.values():
        deployment, _ = serving(plan, arm, ctx)
        pod = deployment["spec"]["template"]["spec"]
        job = compile_job(plan, arm, ctx).job["spec"]["template"]["spec"]
        (server,) = [each for each in pod["containers"] if "vllm serve" in each["command"][-1]]
        (compiler,) = [each for each in job["initContainers"] if "vllm serve" in each["command"][-1]]
        yield Arm(
            name,
            plan.served,
            arm.variant,
            _given(server),
            _given(compiler),
            all("unset NEURON_RT_VISIBLE_CORES\n" in each["command"][-1] for each in (server, compiler)),
            server["image"],
            pod["restartPolicy"],
        )


def _given(container: dict[str, Any]) -> dict[str, Any]:
    script = container["command"][-1]
    words = shlex.split(script[script.index("vllm serve") :].splitlines()[0].split(" >")[0])
    out: dict[str, Any] = {f"${each['name']}": each.get("value", "") for each in container["env"]}
    rest = words[3:]
    while rest:
        flag, *rest = rest
        value: Any = rest.pop(0) if rest and not rest[0].startswith("--") else True
        out[flag] = json.loads(value) if isinstance(value, str) and value.startswith("{") else value
    return out


def _affinity(arm: Arm) -> str | None:
    both = (arm.serve.get(f"${SKIP}"), arm.compile.get(f"${SKIP}"))
    if both == ("1", "1"):
        return "the variable is 1 in both pods"
    return "workers look, since the deployment has `efa_interfaces`" if both == ("0", "0") else None


def _visible_cores(arm: Arm) -> str | None:
    given = {**arm.serve, **arm.compile}
    if given.keys() & {"$NEURON_RT_VISIBLE_CORES", "$NEURON_VISIBLE_DEVICES"} or not arm.forgets:
        return None
    return "neither is set, and what a driver or the image sets is unset"


def _prefix_caching(arm: Arm) -> str | None:
    if "--no-enable-prefix-caching" in arm.serve and "--enable-prefix-caching" not in arm.serve:
        return "off"
    return "segmented" if arm.config("kv_segment_size_buckets") else None


def _last_token_bucket(arm: Arm) -> str | None:
    buckets = arm.config("num_batched_tokens_buckets")
    if not buckets:
        return "the plugin's own"
    return f"both {buckets[-1]}" if buckets[-1] == arm.number("--max-num-batched-tokens", 0) else None


def _last_sequence_bucket(arm: Arm) -> str | None:
    buckets = arm.config("num_seqs_buckets")
    if not buckets:
        return "the plugin's own"
    return f"both {buckets[-1]}" if buckets[-1] == arm.number("--max-num-seqs", 0) else None


def _prefill(arm: Arm) -> str | None:
    batched = arm.number(BATCHED, DEFAULT_BATCHED)
    return reading(arm.number("--max-model-len", 0), batched, arm.serve["--additional-config"]["neuron_config"])


def _blocks(arm: Arm) -> str | None:
    flag = "--num-gpu-blocks-override"
    if arm.serve.get(flag) != arm.compile.get(flag):
        return None
    if flag in arm.serve:
        return f"{arm.serve[flag]} in both pods"
    drafted = arm.serve.get("--speculative-config", {}).get("method")
    return None if drafted == "dflash" else "computed by both pods from the same flags"


def _compilers(arm: Arm) -> str | None:
    vcpus, name = arm.experiment.shape.vcpus, "NEURON_LIBTORCH_PARALLEL_COMPILE_WORKERS"
    if vcpus >= FEW_CPUS:
        return f"8, on {vcpus} vCPUs"
    said = arm.compile.get(f"${name}")
    return f"{said}, on {vcpus} vCPUs" if said and int(said) * 4 <= vcpus else None


def _patience(arm: Arm) -> str | None:
    names = ("VLLM_NEURON_COMPILATION_TIMEOUT", "VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS")
    said = [int(arm.compile.get(f"${name}", 0)) for name in names]
    return f"{min(said)} s" if min(said) >= 1200 else None


def _cores_free(arm: Arm) -> str | None:
    again = arm.restarts == "Always"
    return f"a server that finds them busy is started again, {RESTARTS_ALLOWED} times" if again else None


def _versions(arm: Arm) -> str | None:
    published = arm.image.startswith("public.ecr.aws/neuron/") and not arm.serve.get("$PYTHONPATH")
    return "the published image; servers see none of our packages" if published else None


def _compiler_flags(arm: Arm) -> str | None:
    return None if {"$NEURON_CC_FLAGS"} & {*arm.serve, *arm.compile} else "not set, and no experiment may set it"


def _no_async(arm: Arm) -> str | None:
    if "--speculative-config" not in arm.serve:
        return "no speculation"
    return "said" if "--no-async-scheduling" in arm.serve else None


def _fp8(arm: Arm) -> str | None:
    if arm.experiment.variant(arm.name).quantization != "fp8":
        return "no FP8"
    return "packed" if arm.config("fp8_packed_kv") is True or not arm.config("kv_segment_size_buckets") else None


def _mxfp4(arm: Arm) -> str | None:
    if arm.experiment.target_of(arm.experiment.variant(arm.name)).family != "gpt-oss":
        return "no gpt-oss"
    unpacked = arm.config("quantization") == "bf16" and arm.serve.get("--hf-overrides") == {"quantization_config": {}}
    return "unpacked to BF16" if unpacked else None


def _dflash(arm: Arm) -> str | None:
    if arm.serve.get("--speculative-config", {}).get("method") != "dflash":
        return "no DFlash"
    flags = {"--no-async-scheduling", "--no-enable-chunked-prefill", "--no-enable-prefix-caching"}
    return "all said" if {*flags, "--disable-hybrid-kv-cache-manager"} <= arm.serve.keys() else None


def _ready(arm: Arm) -> str | None:
    return "does not apply: one server process, which starts its engine itself" if arm.serve else None


NOTES = "public notes from trn2"
CONDITIONS = (
    Condition(
        f"Workers end without an EFA interface at their device, unless {SKIP} is set",
        f"plugin, utils/hardware_config.py and vllm/worker/neuron_worker.py; AWS's quickstart of its image; {NOTES}",
        _affinity,
    ),
    Condition(
        "NEURON_RT_VISIBLE_CORES ends the start; NEURON_VISIBLE_DEVICES must name one core a rank, or nothing",
        "plugin, vllm/worker/neuron_worker.py (_get_visible_devices)",
        _visible_cores,
    ),
    Condition(
        "Prefix caching is on by default and ends the start without segmented prefill",
        f"plugin, vllm/worker/neuron_model_runner.py; {NOTES}",
        _prefix_caching,
    ),
    Condition(
        "The last num_batched_tokens_bucket is --max-num-batched-tokens",
        f"plugin, utils/bucket_utils.py; {NOTES}",
        _last_token_bucket,
    ),
    Condition("The last num_seqs_bucket is --max-num-seqs", "plugin, utils/bucket_utils.py", _last_sequence_bucket),
    Condition(
        "Prefill is in one shot of at most 16,384 tokens, or in segments of 512 to 8,192 that are the token bucket",
        "plugin, utils/bucket_utils.py (resolve_segmented_prefill_config)",
        _prefill,
    ),
    Condition(
        "The number of KV blocks is part of every graph: another one at serving is a cache miss; drafting with DFlash "
        "costs what is allocated, so its number is given",
        "plugin, docs/design/compilation/compilation_cache.md and vllm/worker/neuron_worker.py "
        "(_determine_available_memory_neuron); its DFlash branch's example",
        _blocks,
    ),
    Condition(
        "Eight compilers run side by side: on 12 vCPUs each took 4.4 times as long, and one needs up to 36 GB",
        f"plugin, envs.py; {NOTES.replace('trn2', 'trn2.3xlarge')}",
        _compilers,
    ),
    Condition(
        "A graph may take longer to compile, and a step to answer, than 600 s",
        "aws-neuron-sdk 81ce03a, vllm-neuron/docs, tutorials of gpt-oss and Llama 3.3 70B",
        _patience,
    ),
    Condition(
        "Cores come free 30 to 45 s after a process died",
        NOTES,
        _cores_free,
    ),
    Condition(
        "The compiler needs its own islpy and nki: another islpy ends compiles with NCC_ISMP902",
        f"{NOTES} (plugin built from sources)",
        _versions,
    ),
    Condition(
        "NEURON_CC_FLAGS takes the place of the plugin's own flags, and its verifier then refuses graphs (NCC_EVRF029)",
        NOTES,
        _compiler_flags,
    ),
    Condition(
        "Speculation and asynchronous scheduling exclude each other",
        "aws-neuron-sdk 81ce03a, vllm-neuron/docs/guides/features-guide.md",
        _no_async,
    ),
    Condition(
        "FP8 prefill in segments needs a packed KV cache",
        "aws-neuron-sdk 81ce03a, vllm-neuron/docs/tutorials/tutorial-llama3-70b.md",
        _fp8,
    ),
    Condition(
        "MXFP4 is Trainium3's: gpt-oss is unpacked to BF16 on Trainium2",
        "aws-neuron-sdk 81ce03a, vllm-neuron/docs/model-recipes/gpt-oss.md and guides/features-guide.md",
        _mxfp4,
    ),
    Condition(
        "DFlash needs four features switched off",
        "plugin's DFlash branch, examples/vllm_neuron/models/llama3/dflash",
        _dflash,
    ),
    Condition(
        "VLLM_ENGINE_READY_TIMEOUT_S ends a start after 600 s",
        "vLLM, v1/engine/core_client.py; tutorials of disaggregated serving",
        _ready,
    ),
)


def render() -> str:
    by_preset: dict[str, list[Arm]] = {}
    for arm in arms():
        by_preset.setdefault(arm.preset, []).append(arm)
    cells = {each.what: {preset: _cell(each, own) for preset, own in by_preset.items()} for each in CONDITIONS}
    alike = {what: next(iter(found.values())) for what, found in cells.items() if len(set(found.values())) == 1}
    differ = [what for what in cells if what not in alike]
    numbered = {what: f"by preset: {chr(ord('A') + at)}" for at, what in enumerate(differ)}
    rows = [(each.what, each.source, alike.get(each.what) or numbered[each.what]) for each in CONDITIONS]
    told = [(numbered[what][-1], *(cells[what][preset] for preset in by_preset)) for what in differ]
    return page(
        "What the native plugin needs on trn2",
        INTRODUCTION,
        table(("condition", "source", "our pods"), rows),
        "## By preset",
        table(("condition", *(f"`{preset}`" for preset in by_preset)), told),
    )


def _cell(condition: Condition, own: list[Arm]) -> str:
    """What holds for all arms, or for each."""
    found = {arm.name: condition.met(arm) or "**broken**" for arm in own}
    if len(set(found.values())) == 1:
        return next(iter(found.values()))
    return "; ".join(f"{name}: {text}" for name, text in found.items())
