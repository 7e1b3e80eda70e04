"""Rules of an engine: what it serves, what an experiment may set on it, where its artifacts are compiled."""

from collections.abc import Iterator

from specdecode.experiment import settable
from specdecode.experiment.effective import effective, family, flags, neuron_config, serving_env
from specdecode.experiment.engine import Dialect
from specdecode.experiment.engine_parts import CpuCompile
from specdecode.experiment.model import CompileOn, Sweep
from specdecode.experiment.rules import native
from specdecode.experiment.rules.case import Finding, ServedCase
from specdecode.experiment.shapes import COMPILER
from specdecode.experiment.sizing import lacking, room_of


def variables(case: ServedCase) -> Iterator[Finding]:
    artifact = case.engine.artifact
    ours = {artifact.variable, *artifact.serve_env} if artifact else set()
    for field, env in case.given("env"):
        for name, value in env.items():
            problem = settable.variable_problem(name, value, case.engine.settable_env)
            if problem or name in ours:
                yield f"{field}.{name}", problem or f"{name} is ours", _fix(case)


def arguments(case: ServedCase) -> Iterator[Finding]:
    for field, words in case.given("extra_args"):
        for problem in settable.argument_problems(words, case.engine.settable_args):
            yield field, problem, _fix(case)


BATCHED = "--max-num-batched-tokens"
DEFAULT_BATCHED = 2048
"""vLLM's own (SchedulerConfig), and on trn2 (a note on plugin 0.24). Without chunked prefill: the window, if longer."""


def batched_tokens(case: ServedCase) -> Iterator[Finding]:
    """Tokens of a step of which vLLM's scheduler and the native plugin's kernels are capable."""
    found: dict[str, tuple[str, str]] = {}
    for variant in case.experiment.variants:
        arm, serving = (case.experiment, variant, case.engine), case.experiment.serving_of(variant)
        given, longest = effective(*arm), serving.max_model_len
        whole = given.get("--enable-chunked-prefill") is False
        batched = native.number(given, BATCHED, max(DEFAULT_BATCHED, longest * whole))
        config, plugin = neuron_config(*arm), case.engine.dialect is Dialect.NATIVE_PLUGIN
        if batched < serving.max_num_seqs:
            why, fix = f"is less than max_num_seqs {serving.max_num_seqs}", "raise it"
        elif whole and batched < longest:
            why, fix = f"is less than max_model_len {longest}, without chunked prefill", f"set it to {longest}"
        elif plugin and not config.get("kv_segment_size_buckets") and not native.reading(longest, batched, config):
            sizes, once = ", ".join(map(str, native.SEGMENTS)), native.SINGLE_SHOT
            why = f"suits no max_model_len of {longest}: prompts are read at once up to {once}, or in segments"
            fix = f"set it, and num_batched_tokens_buckets if given, to one of {sizes}, or lower serving.max_model_len"
        else:
            continue
        holder = f"variants.{variant.name}" if BATCHED in flags([*variant.extra_args]) else "serving"
        found.setdefault(f"{holder}.extra_args", (f"{BATCHED} {batched} {why}", fix))
    yield from ((field, *said) for field, said in found.items())


def configuration(case: ServedCase) -> Iterator[Finding]:
    if case.engine.dialect is Dialect.UPSTREAM:  # it takes none: another rule says so
        return
    answered = native.MOVED if case.engine.dialect is Dialect.NATIVE_PLUGIN else UNKNOWN  # by rules of their own
    for field, config in case.given("neuron_config"):
        for path, problem in settable.config_problems(config, (*case.engine.settable_config, *answered)):
            yield f"{field}.{path}", problem, _fix(case)


def _fix(case: ServedCase) -> str:
    return f"leave it out (`specdecode engines {case.engine.name}` lists what is settable)"


ON = "compile.on"
LEAVE = "leave compile.on at accelerator"


def compiled_on_cpu(case: ServedCase) -> Iterator[Finding]:
    """What is asked of CPU nodes they can do."""
    if case.experiment.compile.on is CompileOn.CPU:
        yield from not_on_cpu(case)


def not_on_cpu(case: ServedCase) -> Iterator[Finding]:
    """Why CPU nodes cannot compile all arms, asked for or not: `plan` looks before it offers it. Nothing if the
    engine's file says how, with a source, and a node has the room.
    """
    engine = case.engine
    if engine.artifact is None:
        yield ON, f"{engine.name} compiles nothing", LEAVE
        return
    if engine.artifact.on_cpu is None:
        message = f"{engine.name} is not known to compile without Neuron devices"
        yield ON, message, f"{LEAVE}; `specdecode engines` shows which engine can"
        return
    if case.experiment.sweep is Sweep.ADAPTIVE:
        message = "an adaptive sweep chooses its arms while it holds the node, so none can be compiled before"
        yield ON, message, f"{LEAVE}, or write sweep: grid"
    yield from _arms_on_cpu(case, engine.artifact.on_cpu)


def _arms_on_cpu(case: ServedCase, can: CpuCompile) -> Iterator[Finding]:
    experiment = case.experiment
    speculating = [arm.name for _, arm, _ in case.speculating()]
    if speculating and not can.speculation:
        message = f"{case.engine.name} cannot compile speculation without Neuron devices: {', '.join(speculating)}"
        yield ON, message, LEAVE
    for key, value in can.neuron_config.items():
        said = {arm.name: neuron_config(experiment, arm, case.engine).get(key) for arm in experiment.variants}
        if without := [name for name, own in said.items() if own != value]:
            shown = str(value).lower()
            message = f"{', '.join(without)}: without {key}: {shown} an artifact of a CPU node cannot be checked"
            yield ON, message, f"set serving.neuron_config.{key}={shown}, or {LEAVE}"
    heaviest, asked = max(map(experiment.weights_gib, experiment.variants)), can.resources
    needs = asked.cpu, asked.memory_request_gib(heaviest), asked.ephemeral_request_gib(heaviest)
    yield from ((ON, f"compiling needs {said}", LEAVE) for said in lacking(room_of(COMPILER), needs))


UNKNOWN = {
    "trace_tokengen_model": "leave it out: fused speculation traces no token generation model",
    "pad_token_id": "leave it out: it is an argument of inference_demo's generation",
}
"""Keys of published lines that NxD Inference does not take (models/config.py of v0.6.10598 computes the first)."""
_FP8_ENV = {"XLA_HANDLE_SPECIAL_SCALAR": "1", "UNSAFE_FP8FNCAST": "1"}


def model_family(case: ServedCase) -> Iterator[Finding]:
    """The engine must serve the family. A native engine also needs it: much of its configuration depends on it."""
    name, served = case.engine.name, case.engine.model_families
    for field, model in case.targets():
        if model.family is None and case.engine.dialect is Dialect.NATIVE_PLUGIN:
            message = f"the family of {model.id} is not given, and {name} is configured by family"
            yield f"{field}.family", message, f"give one of {', '.join(served)}"
        if model.family and model.family not in served:
            yield field, f"{name} serves no {model.family} models", f"families it serves: {', '.join(served)}"


def quantization(case: ServedCase) -> Iterator[Finding]:
    for variant in case.experiment.variants:
        field, target = f"variants.{variant.name}", case.experiment.target_of(variant)
        of_family = family(case.experiment, variant, case.engine).quantizations
        has = case.engine.quantizations if of_family is None else of_family
        if variant.quantization not in has:
            what = f"{variant.quantization}{f' for {target.family}' if of_family else ''}"
            yield f"{field}.quantization", f"{case.engine.name} has no {what}", f"it has {', '.join(has)}"
        elif case.engine.dialect is Dialect.NATIVE_PLUGIN:
            if target.rescale_fp8:
                message = "the native plugin loads a static FP8 checkpoint (ModelOpt) as published, without rescaling"
                yield f"{field}.target.rescale_fp8", message, "leave it out"
        elif variant.quantization == "fp8":
            if not target.rescale_fp8 and not target.import_prefix:
                message = f"{target.id} holds OCP FP8 (up to 448), and Neuron's FP8_EXP4 ends at 240"
                yield f"{field}.target.rescale_fp8", message, "set it to true, or import weights that are rescaled"
            env = serving_env(case.experiment, variant, case.engine)
            if missing := [name for name, value in _FP8_ENV.items() if env.get(name) != value]:
                message = f"FP8 needs {' and '.join(missing)} in the environment"
                yield f"{field}.env", message, ", ".join(f'{name}: "1"' for name in missing)
        elif target.rescale_fp8:
            yield f"{field}.quantization", f"{target.id} is rescaled to FP8, and the variant says bf16", "set it to fp8"


def neuron_keys(case: ServedCase) -> Iterator[Finding]:
    for field, config in case.given("neuron_config"):
        for key in config:
            if "-" in key:
                message = f"{key!r} has a hyphen: the library warns and ignores it, so that nothing changes"
                yield f"{field}.{key}", message, f"write {key.replace('-', '_')}"
            elif key in UNKNOWN and case.engine.dialect is not Dialect.NATIVE_PLUGIN:
                message = f"{key!r} is unknown to NxD Inference, which warns and ignores it"
                yield f"{field}.{key}", message, UNKNOWN[key]


def dialect(case: ServedCase) -> Iterator[Finding]:
    if case.engine.dialect is Dialect.NATIVE_PLUGIN:
        yield from native.moved_keys(case)
    for field, config in case.given("neuron_config"):
        if config and case.engine.dialect is Dialect.UPSTREAM:
            message = f"{case.engine.name} is vLLM without Neuron, which has no Neuron configuration"
            yield field, message, f"leave out {', '.join(config)} (serving.extra_args gives other arguments)"


def ami(case: ServedCase) -> Iterator[Finding]:
    ami, runtime = case.capacity.ami, case.engine.runtime
    if ami is None or runtime.takes_ami(ami):
        return
    message = f"AMI {ami} does not suit {case.engine.name} (runtime {runtime.version}, driver {runtime.newest_driver})"
    if ami in runtime.refused_amis:
        message = f"AMI {ami} has a kernel that panics with any driver, so {case.engine.name} cannot use it"
    yield "engine", message, f"deploy with the engine_generation of this engine, or with neuron_ami {runtime.amis}"
