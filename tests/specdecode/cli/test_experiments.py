"""The commands about experiments: what they print, their JSON, their exit codes; never a traceback."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import jsonschema
import pytest
import yaml
from specdecode.cli import app
from specdecode.experiment import Engine, engine_names, kept, load_engine, load_preset, preset_names
from typer.testing import CliRunner

from tests.finished_folders import stored
from tests.specdecode.steps.aws_fake import FakeS3

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def run(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    runner = CliRunner()

    def call(*arguments, code=0):
        result = runner.invoke(app, list(arguments))
        assert result.exit_code == code, result.output + result.stderr
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result

    return call


def test_presets(run):
    text = run("presets").output
    assert all(name in text for name in preset_names())
    listed = json.loads(run("presets", "--json").output)
    assert sorted(preset["name"] for preset in listed) == preset_names()
    assert {"title", "engine", "target", "variants", "serving", "workload", "first_run"} <= set(listed[0])
    support = [preset.get("support", "~ on your machine") for preset in listed]
    assert [text for text in support if text == "supported"] == support[: support.count("supported")], "they come first"
    assert support[-1] == "~ on your machine" and "ended 2026-02-26" in support


@pytest.mark.parametrize("name", preset_names())
def test_validate_and_plan_of_every_preset(run, name):
    assert f"{name}: valid" in run("validate", name).output
    priced = ["--price", "3"] if load_preset(name).node == "trn2.3xlarge" else []
    planned = json.loads(run("plan", name, *priced, "--json").output)
    assert planned["experiment"]["name"] == name
    text = run("plan", name, *priced).output
    assert "wave" in text and "$" in text and ("to compile" in text or "nothing is compiled" in text)


def test_manifests_are_the_same_as_yaml_and_as_json(run):
    documents = list(yaml.load_all(run("manifests", "qwen3-32b").output, yaml.CSafeLoader))
    assert {d["kind"] for d in documents} == {"NetworkPolicy", "Job", "Deployment", "Service", "ConfigMap", "Secret"}
    listed = json.loads(run("manifests", "qwen3-32b", "--json").output)
    without_keys = [[o for o in given if o["kind"] != "Secret"] for given in (listed["items"], documents)]
    assert listed["kind"] == "List" and without_keys[0] == without_keys[1]


def test_a_price_that_aws_does_not_publish_must_be_said(run):
    text = run("plan", "llama-3.1-8b-eagle3-small", code=2).stderr
    assert "AWS publishes no price of a trn2.3xlarge" in text and "--price" in text
    assert "as you gave it: AWS publishes none" in run("plan", "llama-3.1-8b-eagle3-small", "--price", "2.57").output


def test_the_waves_say_how_many_devices_work_and_who_is_never_beside_its_baseline(run):
    text = run("plan", "llama-3.1-8b-eagle3").output
    assert text.count("base, sd, base-async │ 12 of 16") == 1 and "never on the node together" not in text
    text = run("plan", "llama-3.1-8b-eagle3", "--set", "serving.devices=8").output
    assert "16 of 16" in text and "8 of 16" in text and "never on the node together" not in text
    text = run("plan", "llama-3.1-8b-eagle3", "--set", "serving.devices=8", "--set", "workload.rounds=1").output
    assert "waves     base: never on the node together with the arm that they are compared with" in " ".join(
        text.split("\n")
    )
    assert "none" in run("plan", "account-check").output


def test_a_plan_says_first_what_to_expect_and_the_sum_of_what_it_costs(run):
    text = run("plan", "qwen3-32b-forecast").output
    node, staging, total = (
        [float(each) for each in re.findall(r"\$([\d.]+)", next(re.finditer(rf"^{name} +.*", text, re.M))[0])[:2]]
        for name in ("node", "staging", "total")
    )
    assert total == pytest.approx([a + b for a, b in zip(node, staging, strict=True)], abs=0.011)
    assert run("plan", "qwen3-32b-tuning").output.startswith("guessed ")


def test_scripts_in_the_yaml_can_be_read(run):
    text = run("manifests", "rehearsal").output
    assert "        - |-\n          set -eu\n" in text
    assert "&id" not in text


def test_manifests_carry_what_is_given(run):
    arguments = ["--bucket", "my-bucket", "--run-id", "try-1", "--region", "eu-west-1"]
    arguments += ["--bundle-uri", "s3://my/b.zip", "--bundle-sha256", "1" * 64]
    text = run("manifests", "rehearsal", *arguments).output
    assert all(part in text for part in ("my-bucket", "try-1", "eu-west-1", "s3://my/b.zip", "1" * 64))


def test_problems_are_all_told_with_exit_code_2(run):
    arguments = ["qwen3-32b", "--set", "serving.tensor_parallel_size=64", "--set", "workload.temperature=1"]
    for command in ("validate", "plan", "manifests"):
        stderr = run(command, *arguments, code=2).stderr
        assert "2 problems" in stderr and "fix: set it to 32" in stderr and "(greedy)" in stderr
    found = json.loads(run("validate", *arguments, "--json", code=2).stdout)
    assert found["valid"] is False
    assert {p["rule"] for p in found["problems"]} == {"tensor-parallel", "greedy"}
    assert all({"field", "rule", "message", "source", "fix"} == set(p) for p in found["problems"])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["manifests", "rehearsal", "--run-id", "a b"], "--run-id 'a b': use letters, digits, dots"),
        (["manifests", "rehearsal", "--complete", "--bucket", "b\n# $ reboot"], "--bucket"),
        (["manifests", "rehearsal", "--complete", "--region", "us-east-2\n# $ reboot"], "--region"),
    ],
)
def test_bad_input_is_one_message_and_exit_code_2(run, arguments, says):
    assert says in run(*arguments, code=2).stderr


def test_a_file_of_ones_own(run, tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("extends: qwen3-32b\nname: mine\nworkload: {requests: 3}\n")
    assert json.loads(run("validate", str(path), "--json").output)["experiment"]["workload"]["requests"] == 3
    path.write_text("extends: qwen3-32b\nworkload: {requsts: 3}\n")
    assert "did you mean 'requests'?" in run("validate", str(path), code=2).stderr


def test_plan_takes_price_and_capacity_block(run):
    priced = json.loads(run("plan", "qwen3-32b", "--price", "10", "--json").output)
    assert priced["cost"]["high"] == pytest.approx(priced["node_hours"]["high"] * 10)
    late = run("plan", "qwen3-32b", "--block-end", "2020-01-01").output
    assert "over for new work" in late
    for end in ([], ["--block-end", "2030-01-01"], ["--block-end", "2029-12-31"]):
        said = run("plan", "qwen3-32b", "--block-start", "2030-01-01", *end, code=2).stderr
        assert said.startswith("error: --block-start: give --block-end too, a later time")


SMALL = {"node_type": "trn2.3xlarge", "region": "ap-southeast-4", "price_per_node_hour": "2.57"}
ITS_PRESET = "llama-3.1-8b-eagle3-small"


def test_a_plan_follows_the_kept_deployment_and_options_win(run, checkout):
    kept.write(checkout, kept.KeptSettings(settings=SMALL))
    for more, price in (([], "2.57"), (["--price", "3"], "3.00"), (["--region", "ap-southeast-4"], "2.57")):
        said = run("plan", ITS_PRESET, *more)
        assert f" at ${price} an hour" in said.output
    for command in ("plan", "validate"):
        assert "this deployment's node is a trn2.3xlarge" in run(command, "qwen3-32b", code=2).stderr
    assert " at $0.81 an hour" in run("plan", "account-check").output, "another node than the deployment's"
    assert " at $5.00 an hour" in run("plan", "account-check", "--price", "5").output
    assert "no price of a trn2.3xlarge" in run("plan", ITS_PRESET, "--region", "us-east-2", code=2).stderr
    kept.write(checkout, kept.KeptSettings(settings={"region": "us-east-2"}))
    assert "deployment's node is a trn2.48xlarge" in run("plan", ITS_PRESET, "--price", "3", code=2).stderr
    run("plan", ITS_PRESET, "--price", "3", "--region", "ap-southeast-4")


def test_a_plan_knows_the_kept_price_block_and_longest_run(run, checkout):
    block = {"capacity_start": "2020-01-01T11:30:00+00:00", "capacity_end": "2020-01-02T11:30:00+00:00"}
    settings = {"price_per_node_hour": "10", "longest_run_hours": "1", "capacity_reservation_id": "cr-12345678"}
    kept.write(checkout, kept.KeptSettings(settings=settings | block))
    planned = json.loads(run("plan", "qwen3-32b-tuning", "--json").output)
    assert planned["price_per_node_hour"] == 10 and planned["bill"]["capacity"] == "capacity-block"
    assert any("as you gave it" in each for each in planned["bill"]["assumptions"])
    for words in ("over for new work", "longest_run_hours 1 "):
        assert any(words in each for each in planned["warnings"])
    given = ("--block-end", "2099-01-01", "--longest-run-hours", "99")
    warnings = json.loads(run("plan", "qwen3-32b-tuning", *given, "--json").output)["warnings"]
    assert not any("Capacity Block" in each or "longest_run_hours" in each for each in warnings)


def test_a_forecast_has_the_kept_price(run, checkout):
    def dollars(*more):
        on = json.loads(run("forecast", "qwen3-32b-tuning", *more, "--json").output)["payoff"]["on"]
        return on[-1]["at"][0]["dollars_per_million"]

    published = dollars()
    kept.write(checkout, kept.KeptSettings(settings={"price_per_node_hour": "71.5216"}))
    assert dollars() == pytest.approx([2 * each for each in published])
    assert dollars("--region", "us-west-2") == published
    kept.write(checkout, kept.KeptSettings(settings=SMALL))
    assert dollars() is None, "nobody knows the price of a node that the deployment has not"


@pytest.mark.parametrize("command", ["plan", "validate", "forecast"])
def test_a_broken_file_of_the_deployment_is_told(run, checkout, command):
    for text, says in (
        ("{", "deployment.json cannot be read: move it away, and"),
        ('{"settings": {"price_per_node_hour": "much"}}', "deployment.json: price_per_node_hour: must be a"),
    ):
        (checkout / kept.FILE).write_text(text)
        assert says in run(command, "qwen3-32b", code=2).stderr


def test_plan_looks_into_the_bucket(run, monkeypatch):
    prefix = load_preset("rehearsal").target.prefix

    s3 = FakeS3(stored(prefix))
    monkeypatch.setattr("specdecode.aws.session", lambda **given: SimpleNamespace(client=lambda service: s3))
    planned = json.loads(run("plan", "rehearsal", "--bucket", "b", "--json").output)
    assert [model["staged"] for model in planned["models"]] == [True, False]
    known = planned["models"][0]["content"]
    assert f"there ({known[:8]})" in run("plan", "rehearsal", "--bucket", "b").output


def test_plan_says_that_the_run_whose_answers_are_meant_is_not_in_the_bucket(run, monkeypatch):
    monkeypatch.setattr("specdecode.aws.session", lambda **given: SimpleNamespace(client=lambda service: FakeS3({})))
    meant = ["plan", "rehearsal-forecast", "--set", "answers=run-0"]
    assert "there is no run run-0 in s3://b/" in run(*meant, "--bucket", "b", code=2).stderr
    assert json.loads(run(*meant, "--json").output)["experiment"]["answers"] == "run-0", "nobody looks without a bucket"


def test_one_machine_says_how_it_reads_answers(run, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    said = run("instance", "rehearsal-forecast", "--set", "answers=run-0", "--print", code=2).stderr
    assert "no run of a bucket is on this machine" in said
    assert "`specdecode forecast rehearsal-forecast --answers FOLDER`" in said


def test_a_bucket_that_cannot_be_read_is_exit_code_3(run, monkeypatch):
    from botocore.exceptions import NoCredentialsError

    def nobody(operation, key):
        raise NoCredentialsError()

    s3 = FakeS3()
    s3.before = nobody
    monkeypatch.setattr("specdecode.aws.session", lambda **given: SimpleNamespace(client=lambda service: s3))
    assert "Unable to locate credentials" in run("plan", "rehearsal", "--bucket", "b", code=3).stderr


def test_engines(run):
    text = run("engines").output
    assert all(name in text for name in engine_names())
    assert "…" not in text and "v20260114" in text, "a narrow terminal folds and cuts nothing"
    said = " ".join(text.split())
    for engine in filter(lambda engine: engine.support, map(load_engine, engine_names())):
        assert engine.support.sentence(engine.name) in said, "with its date and the engine to move to"
    one = run("engines", "0.9.1-sdk2.26.1").output
    assert load_engine("0.9.1-sdk2.26.1") == Engine.model_validate(yaml.safe_load(one.rpartition("\n\n")[0]))
    assert "(announced on 2025-12-16); move to " in one.rpartition("\n\n")[2]
    assert json.loads(run("engines", "0.9.1-sdk2.26.1", "--json").output)["greedy_only"] is True
    assert len(json.loads(run("engines", "--json").output)) == len(engine_names())


@pytest.mark.parametrize("document", ["experiment", "engine"])
def test_schema(run, document):
    jsonschema.Draft202012Validator.check_schema(json.loads(run("schema", document).output))


def test_validate_says_all_that_needs_neither_bucket_nor_clock(run):
    assert "is a branch and can move" in run("validate", "llama-3.1-405b").output
    monitored = ("qwen3-32b", "--set", "serving.neuron_metrics=true")
    assert "neuron-monitor runs beside every server" in run("validate", *monitored).output


def test_loads_beyond_the_batch_are_said_before_anything_is_created(run):
    beyond = ("qwen3-32b-load", "--set", "workload.concurrency=[1,32,64]")
    said = "workload.concurrency 32, 64: more than max_num_seqs 16, so that requests queue"
    assert f"warning: {said}" in run("validate", *beyond).output
    assert said in json.loads(run("validate", *beyond, "--json").output)["warnings"]
    text = run("plan", *beyond).output
    loads = [line for line in text.splitlines() if line.startswith("load")]
    assert [line.endswith("(requests queue)") for line in loads] == [False, True, True]
    assert "queue" not in run("validate", "qwen3-32b-load").output + run("plan", "qwen3-32b-load").output


def test_a_plan_that_misses_the_benchmarks_deadline_names_the_load_that_takes_longest(run):
    late = ("qwen3-32b-load", "--set", "deadlines.benchmark=20")
    warnings = json.loads(run("plan", *late, "--json").output)["warnings"]
    (warning,) = [each for each in warnings if "deadlines.benchmark is 20 min: it may not finish; raise it to" in each]
    assert "and 6 levels (up to 26 min are those of 1 at a time) may take" in warning
    assert warning.endswith(", or measure fewer cases, requests or levels")


def test_what_the_preset_of_six_loads_costs_is_stated(run):
    planned = json.loads(run("plan", "qwen3-32b-load", "--json").output)
    assert not [each for each in planned["warnings"] if "deadline" in each or "queue" in each]
    row = next(line for line in (ROOT / "docs/reference/costs.md").read_text().splitlines() if "-load`" in line)
    low, high = (round(planned["cost"][end]) for end in ("low", "high"))
    assert (
        f"| ${low} to ${high} |" in row and f"${low} to ${high}" in (ROOT / "docs/how-to/several-loads.md").read_text()
    )


def test_a_plan_of_several_loads_shows_what_each_takes(run):
    planned = json.loads(run("plan", "qwen3-32b-load", "--json").output)
    assert [item["level"]["concurrency"] for item in planned["levels"]] == [1, 2, 4, 8, 12, 16]
    assert [item["requests"] for item in planned["levels"]] == [48, 48, 48, 64, 96, 128], "two a stream at least"
    by_level, by_group = (sum(item["node_hours"]["high"] for item in planned[of]) for of in ("levels", "parts"))
    assert by_level == pytest.approx(by_group) and by_level > 0
    text = run("plan", "qwen3-32b-load").output
    assert "load      8 at a time: 64 requests an arm and round: 1.4 to 8.5 min, $0.81 to $5.08" in text
    assert "\nload  " not in run("plan", "rehearsal").output


def test_a_plan_on_several_nodes_shows_every_run_that_would_be_started(run):
    arguments = ("plan", "qwen3-32b-tuning", "--set", "sweep=grid", "--nodes", "3")
    flat = " ".join(run(*arguments).output.split())
    assert "3 runs, each on a node of its own" in flat and "│ all │ 22 arms │" in flat
    parts = json.loads(run(*arguments, "--json").stdout)
    assert len(parts) == 3 and sum(len(part["experiment"]["variants"]) - 1 for part in parts) == 22
    assert "one node measures it" in run("plan", "qwen3-32b-tuning", "--nodes", "2", code=2).stderr
