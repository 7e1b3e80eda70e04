"""What decides an artifact changes its fingerprint, and nothing else does: every field of every model, both ways."""

import pytest
from specdecode.experiment import Engine, load_engine, load_preset
from specdecode.experiment.engine_parts import FamilySupport
from specdecode.experiment.model import ServedExperiment
from specdecode.experiment.variants import Method, ModelKind, ModelRef, ServedVariant, Serving, Speculation
from specdecode.planning import fingerprint

ENGINE = load_engine("0.9.1-sdk2.26.1")
PRESET = load_preset("llama-3.1-405b")
SD = PRESET.variant("sd-fp8")

DECIDES = {
    (ModelRef, "id"): "acme/other",
    (ModelRef, "revision"): "v2",
    (ModelRef, "kind"): ModelKind.EAGLE,
    (ModelRef, "rescale_fp8"): None,  # the opposite
    (ModelRef, "import_prefix"): "imports/x/",  # other bytes than the hub's
    (Speculation, "method"): Method.EAGLE,
    (Speculation, "num_speculative_tokens_per_batch_size"): ((1, 2, 3),),
    (Speculation, "draft"): PRESET.target,
    (Speculation, "num_speculative_tokens"): 6,
    (Speculation, "draft_max_model_len"): 2048,
    (Serving, "tensor_parallel_size"): 32,
    (Serving, "logical_neuron_core"): 1,
    (Serving, "max_num_seqs"): 2,
    (Serving, "max_model_len"): 6400,
    (Serving, "neuron_config"): {},
    (Serving, "extra_args"): ("--block-size", "32"),
    (Serving, "env"): {"NEURON_CC_FLAGS": "-O1"},
    (ServedVariant, "quantization"): "bf16",
    (ServedVariant, "speculation"): None,
    (ServedVariant, "neuron_config"): {},
    (ServedVariant, "env"): {},
    (ServedVariant, "extra_args"): ("--block-size", "32"),
    (ServedVariant, "target"): None,
    (ServedVariant, "tensor_parallel_size"): 32,
    (ServedVariant, "max_num_seqs"): 2,
    (ServedVariant, "max_model_len"): 6400,
    (Engine, "image"): "public.ecr.aws/neuron/other:1",
    (Engine, "digest"): "sha256:" + "0" * 64,
    (Engine, "serve_args"): ("--no-enable-prefix-caching",),
    (Engine, "env"): {},
    (Engine, "neuron_config"): {"deterministic": True},
    (Engine, "families"): {"llama3": FamilySupport(hf_overrides={"quantization_config": {}})},
}
DOES_NOT = {
    (ModelRef, "family"): "other",
    (ModelRef, "gated"): None,
    (ModelRef, "size_gib"): 1.0,
    (Speculation, "most_tokens_per_step"): "k",  # said of servers that already run
    (Serving, "devices"): 8,
    (Serving, "neuron_metrics"): None,
    (ServedVariant, "name"): "other",
    (ServedVariant, "label"): "Other",
    (ServedVariant, "compare_to"): None,
    (ServedVariant, "reads"): "base",
}
ELSEWHERE = {
    ServedExperiment: {"target", "serving", "variants"},  # their own fields are above
    Engine: {"methods"},  # below
}


def changed(part, field, value):
    return part.model_copy(update={field: not getattr(part, field) if value is None and field in BOOLEANS else value})


BOOLEANS = {"rescale_fp8", "gated", "neuron_metrics"}


def prints(model, field, value):
    """Fingerprints of the arm with `field` of `model` changed, wherever the model occurs."""
    if model is Engine:
        yield fingerprint(PRESET, SD, changed(ENGINE, field, value))
    elif model is Serving:
        yield fingerprint(PRESET.model_copy(update={"serving": changed(PRESET.serving, field, value)}), SD, ENGINE)
    elif model is ServedVariant:
        yield fingerprint(PRESET, changed(SD, field, value), ENGINE)
    elif model is Speculation:
        yield fingerprint(PRESET, SD.model_copy(update={"speculation": changed(SD.speculation, field, value)}), ENGINE)
    else:
        yield fingerprint(PRESET, SD.model_copy(update={"target": changed(SD.target, field, value)}), ENGINE)
        draft = SD.speculation.model_copy(update={"draft": changed(SD.speculation.draft, field, value)})
        yield fingerprint(PRESET, SD.model_copy(update={"speculation": draft}), ENGINE)


@pytest.mark.parametrize(("model", "field"), DECIDES, ids=lambda x: getattr(x, "__name__", x))
def test_this_decides(model, field):
    for new in prints(model, field, DECIDES[model, field]):
        assert new != fingerprint(PRESET, SD, ENGINE)


@pytest.mark.parametrize(("model", "field"), DOES_NOT, ids=lambda x: getattr(x, "__name__", x))
def test_this_does_not(model, field):
    for same in prints(model, field, DOES_NOT[model, field]):
        assert same == fingerprint(PRESET, SD, ENGINE)


@pytest.mark.parametrize("model", [ModelRef, Speculation, Serving, ServedVariant])
def test_no_field_is_forgotten(model):
    assert {f for m, f in [*DECIDES, *DOES_NOT] if m is model} == set(model.model_fields)


def test_nothing_else_of_the_experiment_decides():
    other = load_preset(
        "llama-3.1-405b",
        overrides={
            "name": "other", "title": "x", "description": "y", "accuracy": True, "deadlines": {"compile": 1},
            "workload": {**load_preset("rehearsal").workload.model_dump(mode="json"), "seed": 5, "rounds": 3},
        },
    )  # fmt: skip
    other = other.model_copy(update={"node": "trn2.3xlarge", "forecast": "another"})
    assert fingerprint(other, SD, ENGINE) == fingerprint(PRESET, SD, ENGINE)
    used = set(ServedExperiment.model_fields) - ELSEWHERE[ServedExperiment] - {"schema_version", "engine"}
    rest = "name title description accuracy compile deadlines forecast hold node published start_check sweep workload"
    assert used == {"answers", *rest.split()}


def test_the_experiments_target_decides_where_the_variant_has_none():
    base = PRESET.variant("base")
    other = PRESET.model_copy(update={"target": changed(PRESET.target, "revision", "v2")})
    assert fingerprint(other, base, ENGINE) != fingerprint(PRESET, base, ENGINE)
    assert fingerprint(other, SD, ENGINE) == fingerprint(PRESET, SD, ENGINE), "it has a target of its own"


def test_variables_of_the_runtime_do_not_decide_and_unknown_ones_do():
    def with_env(name):
        serving = PRESET.serving.model_copy(update={"env": {**PRESET.serving.env, name: "77"}})
        return fingerprint(PRESET.model_copy(update={"serving": serving}), SD, ENGINE)

    for name in ENGINE.runtime_env:
        assert with_env(name) == fingerprint(PRESET, SD, ENGINE)
    assert with_env("NEURON_SOMETHING_NEW") != fingerprint(PRESET, SD, ENGINE)


def test_the_rest_of_an_engine_does_not_decide():
    decided = {f for m, f in DECIDES if m is Engine} | ELSEWHERE[Engine] | {"runtime_env"}
    other = load_engine("rehearsal-cpu")
    rest = {f: getattr(other, f) for f in Engine.model_fields if f not in decided}
    assert fingerprint(PRESET, SD, ENGINE.model_copy(update=rest)) == fingerprint(PRESET, SD, ENGINE)
    method = ENGINE.methods[Method.FUSED_DRAFT].model_copy(update={"neuron_config": {}})
    other = ENGINE.model_copy(update={"methods": {**ENGINE.methods, Method.FUSED_DRAFT: method}})
    assert fingerprint(PRESET, SD, other) != fingerprint(PRESET, SD, ENGINE)
    explicit = SD.speculation.model_copy(update={"draft_max_model_len": PRESET.serving.max_model_len})
    same = SD.model_copy(update={"speculation": explicit})
    assert fingerprint(PRESET, same, ENGINE) == fingerprint(PRESET, SD, ENGINE)


def test_all_arms_of_the_sweep_differ():
    tuning = load_preset("qwen3-32b-tuning")
    assert len({fingerprint(tuning, v, ENGINE) for v in tuning.variants}) == 23
    one, two = load_preset("qwen3-32b"), load_preset("qwen3-32b-tuning")
    assert fingerprint(one, one.variant("base"), ENGINE) == fingerprint(two, two.variant("base"), ENGINE)
    sd = two.variant("sd-qwen3-1.7b-k7")
    assert fingerprint(one, one.variant("sd"), ENGINE) == fingerprint(two, sd, ENGINE)
