"""An experiment is data: what it sets of a server neither loads code nor moves anything, in whatever spelling."""

import pytest
from pydantic import ValidationError
from specdecode.experiment import Engine, ExperimentError, engine_names, load_engine, load_preset, settable
from specdecode.experiment.capacity import Capacity
from specdecode.experiment.rules import check

ENGINES = engine_names()
FOREIGN = """
AWS_ENDPOINT_URL AWS_ENDPOINT_URL_S3 AWS_ROLE_ARN AWS_WEB_IDENTITY_TOKEN_FILE AWS_CONFIG_FILE AWS_CA_BUNDLE
AWS_REGION BUNDLE_URI BUNDLE_SHA256 BUCKET POD_IP PATH ENV BASH_ENV IFS LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT
GCONV_PATH PYTHONPATH PYTHONSTARTUP PYTHONHOME PYTHONINSPECT HOME XDG_CACHE_HOME TMPDIR HTTP_PROXY HTTPS_PROXY
ALL_PROXY NO_PROXY http_proxy https_proxy Https_Proxy SSL_CERT_FILE SSL_CERT_DIR SSLKEYLOGFILE REQUESTS_CA_BUNDLE
CURL_CA_BUNDLE CURL_HOME OPENSSL_CONF GIT_SSH_COMMAND HF_HUB_OFFLINE HF_ENDPOINT HF_HOME HF_TOKEN
HUGGING_FACE_HUB_TOKEN TRANSFORMERS_OFFLINE VLLM_PLUGINS VLLM_API_KEY VLLM_ALLOW_INSECURE_SERIALIZATION
VLLM_ALLOW_RUNTIME_LORA_UPDATING VLLM_CACHE_ROOT VLLM_CONFIG_ROOT VLLM_USAGE_STATS_SERVER VLLM_NO_USAGE_STATS
VLLM_LOGGING_CONFIG_PATH VLLM_NCCL_SO_PATH VLLM_CUDART_SO_PATH VLLM_HOST_IP VLLM_PORT VLLM_RPC_BASE_PATH
VLLM_MODEL_REDIRECT_PATH VLLM_USE_MODELSCOPE VLLM_TORCH_PROFILER_DIR VLLM_XLA_CACHE_PATH
VLLM_LORA_RESOLVER_CACHE_DIR VLLM_ASSETS_CACHE VLLM_DP_MASTER_IP VLLM_NIXL_SIDE_CHANNEL_HOST VLLM_SERVER_DEV_MODE
VLLM_WORKER_MULTIPROC_METHOD VLLM_NEURON_CACHE_DIR S3_ENDPOINT_URL NEURON_CC_FLAGS NEURON_COMPILE_CACHE_URL
NEURON_COMPILED_ARTIFACTS NEURON_LIBRARY_PATH NEURON_RT_ROOT_COMM_ID NEURON_RT_INSPECT_OUTPUT_DIR
NEURON_RT_LOCAL_CORE_DUMP_DIRECTORY NEURON_RT_S3_CORE_DUMP_PREFIX NEURON_RT_LOG_LOCATION
NEURON_RT_ASYNC_SENDRECV_BOOTSTRAP_PORT NEURON_FORCE_PJRT_PLUGIN_REGISTRATION NEURON_DUMP_HLO_SNAPSHOT XLA_FLAGS
XLA_REGISTER_INSTALLED_PLUGINS XLA_SAVE_TENSORS_FILE NCCL_NET_PLUGIN NCCL_TUNER_PLUGIN NCCL_TOPO_FILE NCCL_COMM_ID
NCCL_DEBUG_FILE FI_PROVIDER_PATH OMP_TOOL_LIBRARIES TORCH_LOGS TORCHINDUCTOR_CACHE_DIR TRITON_PTXAS_PATH
OPENAI_API_KEY HF_TOKEN_SECRET neuron_rt_num_cores Neuron_RT_NUM_CORES NEURON_RT A_B
"""
ARGUMENTS = [
    ["--middleware", "evil.Middleware"], ["--enforce"], ["--dtyp", "auto"], ["--middleware=evil.Middleware"],
    ["--midd", "evil"], ["--middle=evil"], ["--worker-cls", "evil.Worker"], ["--worker_cls=evil.Worker"],
    ["--worker-c=evil"], ["--worker-extension-cls", "evil"], ["--scheduler-cls", "evil"],
    ["--config", "/tmp/evil.yaml"], ["--conf=x"], ["--trust-remote-code"], ["--trust_remote_code"], ["--trust"],
    ["--no-trust-remote-code"], ["--chat-template", "x.jinja"], ["--tool-parser-plugin", "evil.py"],
    ["--reasoning-parser-plugin=evil.py"], ["--ssl-keyfile", "k"], ["--ssl-ca-certs=c"], ["--api-key", "x"],
    ["--download-dir", "d"], ["--load-format", "tensorizer"],
    ["--model-loader-extra-config", "{\"tensorizer_uri\": \"s3://evil\"}"], ["--logits-processors", "evil:P"],
    ["--kv-transfer-config", "{\"kv_connector_module_path\": \"evil\"}"],
    ["--compilation-config", "{\"custom_ops\": []}"], ["-O3"], ["-O", "3"], ["--hf-overrides", "{\"auto_map\": {}}"],
    ["--hf-overrides.auto_map=evil"], ["--override-neuron-config", "{\"attn_cls\": \"evil\"}"],
    ["--additional-config", "{}"], ["--speculative-config", "{}"], ["--speculative-config.model=evil"],
    ["--model", "evil/model"], ["--tokenizer=evil/tokenizer"], ["evil/model"], ["--"], [""], ["-"], ["@args"],
    ["--port=1"], ["-tp", "2"], ["--distributed-executor-backend", "evil.Executor"], ["--dtype"],
    ["--dtype", "--middleware"], ["--dtype=--middleware"], ["--dtype", "evil"], ["--dtype", "auto", "evil/model"],
    ["--seed", "1e9999"], ["--seed", "$(id)"], ["--seed=1;id"], ["--enforce-eager=evil"],
    ["--enforce-eager", "evil/model"], ["--ENFORCE-EAGER"], [" --enforce-eager"], ["--enforce-eager "],
    ["--max-num-seqs", "1"],
]  # fmt: skip


def problems(preset: str = "qwen3-32b", **overrides: object) -> set[tuple[str, str]]:
    try:
        load_preset(preset, overrides={key.replace("__", "."): value for key, value in overrides.items()})
    except ExperimentError as error:
        return {(problem.field, problem.rule) for problem in error.problems}
    return set()


@pytest.mark.parametrize("engine", ENGINES)
def test_no_engine_lets_an_experiment_set(engine: str) -> None:
    opened = load_engine(engine).settable_env
    given = dict.fromkeys(FOREIGN.split(), "1") | OF_A_BEGINNING
    assert [name for name, value in given.items() if not settable.variable_problem(name, value, opened)] == []


OF_A_BEGINNING = {
    "NEURON_RT_INSPECT_OUTPUT_DIR": "600", "NEURON_RT_LOG_LOCATION": "console", "NEURON_RT_S3_CORE_DUMP_PREFIX": "1",
    "NEURON_RT_LOCAL_CORE_DUMP_DIRECTORY": "x", "NEURON_RT_DEBUG_OUTPUT_DIR": "x", "NEURON_RT_ROOT_COMM_ID": "1",
    "NEURON_RT_ASYNC_SENDRECV_BOOTSTRAP_PORT": "1", "NEURON_RT_ULTRASERVER_MODE": "1",
    "NEURON_RT_DBG_DUMP_INPUTS_ON_ERR": "1", "NEURON_RT_ALLOW_LEGACY_NEFF": "1", "NEURON_RT_OF_THE_NEXT_VERSION": "1",
    "VLLM_NEURON_CPU_MODE": "1", "VLLM_NEURON_FRAMEWORK": "x", "VLLM_NEURON_GOLDEN_CACHE_DIR": "x",
    "VLLM_NEURON_RUNTIME_INPUT_SNAPSHOT_ENABLE": "1", "VLLM_NEURON_OF_THE_NEXT_VERSION": "1",
    "VLLM_CPU_OF_THE_NEXT_VERSION": "1",
}  # fmt: skip
"""Of families with settable members those that write what the server sees, or say where; and unknown ones."""


@pytest.mark.parametrize("engine", ENGINES)
def test_what_is_listed_are_whole_names(engine: str) -> None:
    served_by = load_engine(engine)
    given = served_by.model_dump(mode="json")
    assert served_by.settable_env
    for field, beginning in {"settable_env": "NEURON_RT_*", "settable_config": "attn_*"}.items():
        with pytest.raises(ValidationError, match=field):
            Engine.model_validate({**given, field: [beginning]})


def test_every_arms_variables_are_looked_at_and_all_problems_said_at_once() -> None:
    found = problems(
        serving__env={"LD_PRELOAD": "x", "BUNDLE_URI": "s3://evil/b.zip"},
        variants__sd__env={"https_proxy": "http://evil"},
        serving__extra_args=["--midd", "evil", "--config=x"],
        serving__neuron_config={"attn_cls": "evil"},
    )
    assert found == {
        ("serving.env.LD_PRELOAD", "settable-variable"),
        ("serving.env.BUNDLE_URI", "settable-variable"),
        ("variants.sd.env.https_proxy", "settable-variable"),
        ("serving.extra_args", "settable-argument"),
        ("serving.neuron_config.attn_cls", "settable-configuration"),
    }


@pytest.mark.parametrize("engine", ENGINES)
def test_the_variable_of_the_artifact_is_ours(engine: str) -> None:
    served_by, experiment = load_engine(engine), load_preset("qwen3-32b")
    names = {served_by.artifact.variable, *served_by.artifact.serve_env} if served_by.artifact else set()
    for name in names:
        opened = served_by.model_copy(update={"settable_env": (*served_by.settable_env, name)})
        serving = experiment.serving.model_copy(update={"env": {name: "1"}})
        found = check(experiment.model_copy(update={"serving": serving}), opened, Capacity())
        assert f"serving.env.{name}" in {problem.field for problem in found}


PLACES = ["/tmp/x", "https://evil", "s3://evil/x", "../x", "a\\b", "..", "evil:443", "10.0.0.1", "10.0.0.1:9", "[::1]"]
COMMANDS = ["a;id", "$(id)", "`id`", "$HOME", "~", "@x", "x&y", "<x", "'x'", "é", "a\nb"]


def test_a_settable_variable_takes_no_place() -> None:
    for value in (*PLACES, *COMMANDS):
        assert problems(serving__env={"NEURON_RT_EXEC_TIMEOUT": value}), value
    assert not problems(serving__env={"NEURON_RT_EXEC_TIMEOUT": "600", "FI_PROVIDER": "efa"})
    assert not problems(serving__env={"NEURON_RT_VISIBLE_CORES": "0-31,33", "XLA_USE_BF16": "1"})
    native = problems("llama-3.1-8b-eagle3", serving__env={"NEURON_RT_VISIBLE_CORES": "0-7"})
    assert native == {("serving.env.NEURON_RT_VISIBLE_CORES", "settable-variable")}, "its workers do not start with it"


@pytest.mark.parametrize("key", ["do_sample", "dynamic", "global_topk", "temperature", "top_k", "top_p"])
def test_the_native_plugin_is_given_no_key_of_sampling_that_it_passes_over(key: str) -> None:
    """They would take the place of `all_greedy`, and both arms would sample from the 256 likeliest tokens."""
    found = problems("llama-3.1-8b-eagle3", serving__neuron_config={"on_device_sampling_config": {key: 1}})
    assert found == {(f"serving.neuron_config.on_device_sampling_config.{key}", "settable-configuration")}
    assert not problems("qwen3-32b", serving__neuron_config={"on_device_sampling_config": {key: 1}})


@pytest.mark.parametrize("engine", ENGINES)
def test_no_argument_gets_past(engine: str) -> None:
    opened = load_engine(engine).settable_args
    assert [given for given in ARGUMENTS if not list(settable.argument_problems(given, opened))] == []


def test_what_tunes_an_engine_is_taken() -> None:
    several = ["--dtype", "bfloat16", "--seed=7", "--enforce-eager", "--block-size", "32"]
    for arguments in (several, ["--no-enable-prefix-caching"], ["--seed", "-1"]):
        assert not problems(serving__extra_args=arguments)
    assert not problems(
        serving__neuron_config={
            "fused_qkv": True,
            "cc_pipeline_tiling_factor": 1,
            "torch_dtype": "bfloat16",
            "modules_to_not_convert": ["lm_head", "layers.0.mlp"],
            "on_device_sampling_config": {"do_sample": False, "top_k": 1},
        }
    )


def test_an_abbreviation_is_said_to_be_one() -> None:
    (message,) = settable.argument_problems(["--midd", "x"], {})
    assert "could take it for --middleware" in message


CONFIGS = [
    {"attn_cls": "evil.Attention"}, {"quantized_checkpoints_path": "x"}, {"lora_config": {"lora_ckpt_paths": {}}},
    {"on_device_sampling_config": {"deep": {"worker_cls": "evil"}}}, {"a": [{"module_path": "evil"}]},
    {"compiler_flags": "--x"}, {"modules_to_not_convert": ["../../etc"]}, {"quantization_type": "/etc/passwd"},
    {"weights": "s3://evil/x"}, {"Attn_Cls": "evil"}, {"attn-cls": "evil"}, {"auto_map": {"AutoModel": "evil"}},
    {"output_location": "x"}, {"compilerflags": "--x"}, {"compiler_args": "x"}, {"a_key_of_the_next_version": 1},
    {"on_device_sampling_config": {"a_key_of_the_next_version": 1}}, {"token_tree_config": {"0": ["1"]}},
    {"quantization_type": "evil.example:443"}, {"quantization_type": "10.0.0.1"},
    {"modules_to_not_convert": [["lm_head"], ["http:evil"]]},
    {"tensor_capture_config": {"modules_to_capture": ["lm_head"]}},
]  # fmt: skip


def test_every_problem_of_a_configuration_is_said_at_once() -> None:
    found = settable.config_problems(
        {"attn_cls": "x", "b": 1, "fused_qkv": "/x", "buckets": [1, "s3://x"]}, ["fused_qkv", "buckets"]
    )
    assert [path for path, _ in found] == ["attn_cls", "b", "fused_qkv", "buckets.1"]


@pytest.mark.parametrize("field", ["serving__neuron_config", "variants__sd__neuron_config"])
def test_no_key_of_a_configuration_names_code_or_a_place(field: str) -> None:
    for config in CONFIGS:
        assert "settable-configuration" in {rule for _, rule in problems(**{field: config})}, config


def test_an_engines_file_opens_and_sets_nothing_foreign() -> None:
    good = load_engine("0.9.1-sdk2.26.1").model_dump(mode="json")
    bad = {
        "settable_env": ["LD_PRELOAD", "AWS_PROFILE", "VLLM_PLUGINS"],
        "settable_config": ["attn_cls", "auto_map", "compilerflags", "output_location"],
        "env": {"HTTPS_PROXY": "http://evil", "PATH": "/evil"},
        "settable_args": {"--middleware": ["x"], "--trust-remote-code": "alone"},
        "serve_args": ["--middleware", "evil"],
    }
    for field, value in bad.items():
        with pytest.raises(ValidationError) as caught:
            Engine.model_validate({**good, field: value})
        assert str(next(iter(value))) in str(caught.value), field
    ours = {"settable_env": ["ACME_TUNING"], "settable_args": {"--acme-tuning": "number"}}
    opened = Engine.model_validate({**good, **ours}).settable_env
    assert settable.variable_problem("ACME_TUNING", "1", opened) is None, "a line in the file is what it needs"


@pytest.mark.parametrize("text", ["/etc/passwd", "../cases.yaml", "/proc/self/environ", "."])
def test_no_experiment_names_a_file_of_prompts(text: str) -> None:
    """A pod would read its own files as prompts; sets are named by their hash."""
    given = {"set": "own", "sha256": "0" * 64, "category": "a"}
    case = {"name": "x", "label": "x", "kind": "set", "text": text, "structured": False, "prompts": given}
    assert ("workload.cases.x.text", "prompt-text") in problems(workload__cases=[case])
    named = case | {"text": "", "prompts": given | {"set": text}}
    assert ("workload.cases.x.prompts.set", "schema") in problems(workload__cases=[named])


def test_a_models_id_is_one_of_the_hub_and_no_revision_is_where_another_form_of_the_weights_is() -> None:
    for model in ("Qwen--Qwen3-32B", "a/b--c", "a/..b", "a..b", "/etc", "a/b/c", "-x", "a b"):
        assert ("target.id", "schema") in problems(target__id=model), model
    for revision in ("main-neuron-fp8", "x-import-12345678", "..", "../x", "a/b", ""):
        assert ("target.revision", "schema") in problems(target__revision=revision), revision


def test_ones_own_weights_take_no_other_models_place() -> None:
    """Neither the hub's under the same id and revision, nor somebody else's upload, nor their artifacts."""
    hub = load_preset("qwen3-32b").target
    others = (hub.model_copy(update={"import_prefix": f"imports/{name}/"}) for name in "ab")
    prefixes = {model.prefix for model in (hub, *others)}
    assert len(prefixes) == 3 and all(prefix.startswith("models/Qwen--Qwen3-32B@") for prefix in prefixes)
