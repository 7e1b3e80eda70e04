import shlex
from pathlib import Path

import pytest
from specdecode.experiment import load_engine, load_preset, preset_names
from specdecode.experiment.effective import serving_env
from specdecode.manifests.serve_command import serve_words

from rehearsal.engine.cli import parse_command

SERVE = ["serve", "models/target", "--served-model-name", "pair"]


def refusal(capsys: pytest.CaptureFixture[str], *flags: str, environment: dict[str, str] | None = None) -> str:
    with pytest.raises(SystemExit) as left:
        parse_command([*SERVE, *flags], environment=environment or {})
    assert left.value.code == 2
    text = capsys.readouterr().err
    assert text.count("\n") == 1
    return text


def test_reads_the_command_that_the_manifests_render() -> None:
    settings = parse_command(
        [
            *SERVE,
            *("--host", "127.1.2.3", "--port", "8000", "--tensor-parallel-size", "32", "--max-num-seqs", "4"),
            *("--max-model-len", "1024"),
            *("--override-neuron-config", '{"save_sharded_checkpoint": true, "enable_fused_speculation": true}'),
            "--speculative-config",
            '{"model": "models/draft", "num_speculative_tokens": 7, "max_model_len": 1024, "method": "eagle"}',
        ],
        environment={
            "NEURON_COMPILED_ARTIFACTS": "compiled/x",
            "VLLM_NEURON_FRAMEWORK": "neuronx-distributed-inference",
        },
    )
    assert settings.model == Path("models/target")
    assert (settings.host, settings.port, settings.tensor_parallel_size) == ("127.1.2.3", 8000, 32)
    assert settings.neuron_config == {"save_sharded_checkpoint": True, "enable_fused_speculation": True}
    assert settings.speculative is not None
    assert settings.speculative.num_speculative_tokens == 7
    assert settings.artifacts == Path("compiled/x")


@pytest.mark.parametrize(
    "preset", [name for name in preset_names() if load_preset(name).engine.startswith("rehearsal-cpu")]
)
@pytest.mark.parametrize("compiled", [True, False])
def test_it_takes_every_arm_of_every_preset_that_runs_on_it(preset: str, compiled: bool) -> None:
    experiment = load_preset(preset)
    engine = load_engine(experiment.engine)
    for variant in experiment.variants:
        line = " ".join(serve_words(experiment, variant, engine, compiled=compiled)).replace("$POD_IP", "127.0.0.1")
        settings = parse_command(shlex.split(line)[1:], environment=serving_env(experiment, variant, engine))
        assert (settings.speculative is not None) is (variant.speculation is not None)
        assert settings.verifies_all is (engine.most_tokens_per_step == "k+1")


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--gpu-memory-utilization", "0.9"], "--gpu-memory-utilization"),
        (["--max-model", "5"], "--max-model"),
        (["--dtype", "bfloat16"], "bfloat16"),
        (["--max-num-seqs", "0"], "--max-num-seqs must be at least 1"),
        (["--override-neuron-config", '{"sequence_parallel": true}'], "unknown sequence_parallel"),
        (["--override-neuron-config", '{"save_sharded_checkpoint": 1}'], "must be true or false"),
        (["--override-neuron-config", "{"], "is no JSON"),
        (["--speculative-config", "[]"], "must be a JSON object"),
        (["--speculative-config", '{"model": "d", "num_speculative_tokens": 0}'], "from 1 to 32"),
        (["--speculative-config", '{"num_speculative_tokens": 5}'], "model must be"),
        (["--speculative-config", '{"model": "d", "num_speculative_tokens": 5, "method": "ngram"}'], "'ngram'"),
        (["--speculative-config", '{"model": "d", "num_speculative_tokens": 5, "tp": 1}'], "unknown tp"),
    ],
)
def test_what_it_does_not_know_is_refused_in_one_line(
    capsys: pytest.CaptureFixture[str], flags: list[str], named: str
) -> None:
    assert named in refusal(capsys, *flags)


def test_the_kind_of_a_step_is_said_by_a_variable(capsys: pytest.CaptureFixture[str]) -> None:
    draft = ["--speculative-config", '{"model": "d", "num_speculative_tokens": 2}']
    kinds = {"k": False, "k+1": True}
    for most, verifies_all in kinds.items():
        settings = parse_command(["serve", "m", *draft], environment={"REHEARSAL_MOST_TOKENS_PER_STEP": most})
        assert settings.verifies_all is verifies_all
    assert parse_command(["serve", "m"], environment={}).verifies_all
    one = ["--speculative-config", '{"model": "d", "num_speculative_tokens": 1}']
    for most, says in (("k", "must be at least 2"), ("2", "it must be k or k+1")):
        with pytest.raises(SystemExit):
            parse_command(["serve", "m", *one], environment={"REHEARSAL_MOST_TOKENS_PER_STEP": most})
        assert says in capsys.readouterr().err


def test_counts_of_drafts_need_drafts_and_an_engine_that_has_them(capsys: pytest.CaptureFixture[str]) -> None:
    told = ["--per-request-spec-decode-metrics", "summary"]
    assert "requires speculative decoding" in refusal(capsys, *told)
    draft = ["--speculative-config", '{"model": "d", "num_speculative_tokens": 2}']
    assert parse_command([*SERVE, *draft, *told], environment={}).tells_drafts
    assert not parse_command([*SERVE, *draft], environment={}).tells_drafts
    nxdi = {"REHEARSAL_MOST_TOKENS_PER_STEP": "k"}
    assert "unknown to engines that verify k - 1" in refusal(capsys, *draft, *told, environment=nxdi)


def test_all_problems_are_named_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    text = refusal(
        capsys,
        *("--max-num-seqs", "0", "--override-neuron-config", '{"a": 1}'),
        environment={"VLLM_NEURON_FRAMEWORK": "other"},
    )
    assert all(part in text for part in ("--max-num-seqs", "unknown a", "VLLM_NEURON_FRAMEWORK"))
