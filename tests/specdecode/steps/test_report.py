"""The report step: from raw records to the files and the execution's output."""

import json
from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
from specdecode import names
from specdecode.analysis.results.run_context import Failure
from specdecode.experiment import Capacity, load_preset
from specdecode.experiment.shapes import CPU, TRN2, TRN2_SMALL
from specdecode.measures import publish as publishing
from specdecode.records import RequestRecord, Servers
from specdecode.runs.state import change_state
from specdecode.steps import release, report, run
from specdecode.steps.errors import DamagedFolder, InvalidExperiment, ReportFailed
from specdecode.steps.plan import parse_request
from specdecode.steps.report import LOOKED_AT

from tests.finished_folders import stored
from tests.specdecode.benchmark import making
from tests.specdecode.steps.aws_fake import client_error
from tests.specdecode.steps.world import WAITING, World

FILES = {"report.html", "report.md", "report.csv", "report.json"}


def record(variant: str, case: str, index: int, seconds: float, run_id: str = "run-1") -> RequestRecord:
    times = [0.1 + (seconds - 0.1) * n / 99 for n in range(100)]
    return making.record(
        times, run_id=run_id, variant=variant, case=case, index=index, started_at=1_800_000_000.0 + index,
        sent_s=10.0 * index, prompt_sha256=f"{index:064d}", output="the same " * 16,
    )  # fmt: skip


def measured() -> World:
    world = World()
    measure(world)
    return world


@pytest.fixture
def world() -> World:
    return measured()


def measure(world: World, run_id: str = "run-1", *, speculating_s: float = 1.0, request=None) -> None:
    """A run whose arms answer in 2 s and in `speculating_s`, up to its report."""
    world.run_through(run_id, request=request)
    release.release(world.given(run_id), world.rt)
    for variant, seconds in (("base", 2.0), ("sd", speculating_s)):
        records = [record(variant, "repeat-line", index, seconds + index / 100, run_id) for index in range(8)]
        lines = [item.model_dump_json() for item in records]
        world.s3.objects[f"runs/{run_id}/raw/{variant}/repeat-line.jsonl"] = "".join(
            f"{line}\n" for line in lines
        ).encode()
    world.time += timedelta(hours=1)


def published(world: World, metric: str) -> dict[tuple[str, ...], float]:
    """Values of the dimensions -> value, of the newest datum."""
    return {
        tuple(item["Value"] for item in datum["Dimensions"]): datum["Values"][0]
        for datum in world.cloudwatch.data
        if datum["MetricName"] == metric
    }


def test_the_report_lies_beside_the_raw_files_and_the_output_says_so(world):
    answer = report.report(world.given("run-1"), world.rt)
    assert {key.removeprefix("runs/run-1/") for key in world.s3.objects} >= FILES
    assert answer.report == "s3://bucket/runs/run-1/report.html"
    assert answer.verdict
    assert len(answer.model_dump_json()) < 4096
    document = json.loads(world.s3.objects["runs/run-1/report.json"])
    assert document["run_id"] == "run-1"
    (fastest,) = [item for item in document["context"]["served"] if item["variant"] == "sd"]
    prefix = fastest["artifact"].removeprefix("s3://bucket/")
    assert prefix.startswith("compiled/") and f"{prefix}COMPLETE.json" in world.s3.objects, "it is the one that served"
    assert document["context"]["node"] == "", "an engine that opens no Neuron device ran on no Trainium"
    assert fastest["artifact"] in world.s3.objects["runs/run-1/report.html"].decode()
    assert document["context"]["node_seconds"] > 0
    assert {group["variant"] for group in document["context"]["device_groups"]} == {"base", "sd"}


@pytest.mark.parametrize(
    ("preset", "deployed", "price", "shown"),
    [
        ("qwen3-32b", Capacity(), TRN2.prices["us-east-2"].usd, True),
        ("qwen3-32b", Capacity(node=TRN2.name, price_per_node_hour=30), 30, True),
        ("llama-3.1-8b-eagle3-small", Capacity(node=TRN2_SMALL.name, price_per_node_hour=3), 3, True),
        ("rehearsal-small", Capacity(node=TRN2_SMALL.name, price_per_node_hour=3), 3, False),
        ("account-check", Capacity(node=TRN2.name, price_per_node_hour=30), CPU.prices["us-east-2"].usd, True),
    ],
)
def test_the_report_has_the_node_that_the_run_held_with_its_devices_and_its_price(preset, deployed, price, shown):
    """The deployment's price is of its node with devices; an engine that opens none ran on no Trainium."""
    world, shape = World(), load_preset(preset).shape
    world.rt.environ = {**world.rt.environ, "CAPACITY": deployed.model_dump_json()}
    world.plan(request={"experiment": preset})
    held = run.load_run(world.rt.store, "run-1")
    context = report.run_context(held.plan, held.state, world.rt, Servers(run_id="run-1"))
    assert (context.node, context.devices_per_node) == (shape.name if shown else "", shape.devices)
    assert (context.price_per_node_hour, context.capacity_type) == (price, "on-demand")


def test_what_each_arm_carries_at_the_objective_is_in_the_output_and_in_cloudwatch():
    world = World()
    measure(world, request={"experiment": "rehearsal", "set": {"workload.slo": {"e2e_s": 1.5}, "workload.rounds": 1}})
    answer = report.report(world.given("run-1"), world.rt)
    assert [text.split(" (")[0] for text in answer.carried] == [
        "base does not keep it at 1 at a time",
        "sd carries 1 at a time",
    ]
    assert {key[-1]: value for key, value in published(world, "LargestLoadKept").items()} == {"Base": 0.0, "SD": 1.0}
    good = published(world, "GoodRequests")
    assert good and {value for key, value in good.items() if "SD" in key} == {1.0}
    assert {value for key, value in good.items() if "Base" in key} == {0.0} and published(world, "Goodput")


def test_the_run_pays_for_the_node_until_it_was_given_back(world):
    """The report comes an hour later: that hour cost nothing."""
    state = world.record()
    context = world.report()["context"]
    assert state and state.released_at and state.held_since
    assert context["node_seconds"] == (state.released_at - state.held_since).total_seconds()
    assert world.time - state.released_at >= timedelta(hours=1)


def test_the_engines_counters_are_what_the_benchmark_found(world):
    found = {"variant": "sd", "case": "repeat-line", "drafts": 640, "draft_tokens": 3200, "accepted_tokens": 152}
    servers = {"run_id": "run-1", "arms": {"sd": {"model": "served"}}, "counters": [found], "a later field": 1}
    world.s3.objects["runs/run-1/servers.json"] = json.dumps(servers).encode()
    document = world.report()
    arm = next(arm for arm in document["arms"] if arm["variant"] == "sd")
    assert arm["acceptance_source"] == "engine counters"
    assert arm["totals"]["acceptance_rate"] == pytest.approx(152 / 3200)
    assert any("/llmperf/sd/repeat-line/served_64_" in key for key in world.s3.objects)


def test_the_measured_sets_and_the_prefix_caches_are_named_in_the_report(world):
    tickets = {"name": "tickets", "version": "3", "licence": "ours", "sha256": "5f" * 32, "prompts": 7}
    servers = {"run_id": "run-1", "arms": {"base": {"prefix_caching": False}, "sd": {"model": "m"}}, "sets": [tickets]}
    world.s3.objects["runs/run-1/servers.json"] = json.dumps(servers).encode()
    context = world.report()["context"]
    assert context["sets"] == [tickets]
    assert context["prefix_caching"] == {"base": False}
    assert f"set tickets 3 (ours), SHA-256 {'5f' * 32}" in world.s3.objects["runs/run-1/report.html"].decode()


@pytest.mark.parametrize("damaged", [b"not JSON", b"[]", b'{"counters": 1}'])
def test_a_report_needs_no_counters(world, damaged):
    world.s3.objects["runs/run-1/servers.json"] = damaged
    document = world.report()
    assert document["pairs"]


def test_the_scores_of_the_accuracy_test_are_in_the_report(world):
    document = world.report()
    assert {(score["variant"], score["task"]) for score in document["context"]["accuracy"]} == {
        ("base", "gsm8k"),
        ("sd", "gsm8k"),
    }
    assert "gsm8k" in world.s3.objects["runs/run-1/report.md"].decode()


def test_a_failed_accuracy_test_is_named_in_the_report(world):
    world.s3.objects = {key: value for key, value in world.s3.objects.items() if "/accuracy/" not in key}
    failure = Failure(stage="Accuracy", message="r1-w0-accuracy failed: BackoffLimitExceeded")
    change_state(world.rt.store, "run-1", failures=(failure,))
    answer = report.report(world.given("run-1"), world.rt)
    assert answer.verdict
    for name in ("report.html", "report.md"):
        assert "BackoffLimitExceeded" in world.s3.objects[f"runs/run-1/{name}"].decode()


@pytest.mark.parametrize("text", [b"not JSON", b"[]", b'{"results": 1}', b'{"results": {"gsm8k": {"a,none": NaN}}}'])
def test_a_damaged_score_is_named_and_loses_nothing(world, text):
    world.s3.objects["runs/run-1/accuracy/sd.json"] = text
    context = world.report()["context"]
    assert [score["variant"] for score in context["accuracy"]] == ["base"]
    (failure,) = context["failures"]
    assert failure["variant"] == "sd"
    assert "accuracy/sd.json is no result of lm-eval" in failure["message"]


def test_the_report_s_address_opens_in_a_browser(world):
    page = report.report(world.given("run-1"), world.rt).page
    parts = urlsplit(page)
    region, bucket = world.rt.environ["AWS_REGION"], world.rt.store.bucket
    assert (parts.scheme, parts.netloc) == ("https", f"{region}.console.aws.amazon.com")
    assert parts.path == f"/s3/object/{bucket}"
    assert parse_qs(parts.query) == {"region": [region], "prefix": ["runs/run-1/report.html"]}
    assert "runs/run-1/report.html" in world.s3.objects
    assert report.console_page("b", "k", "cn-north-1").startswith("https://cn-north-1.console.amazonaws.cn/")


def test_a_run_without_records_has_no_report(world):
    world.s3.objects = {key: value for key, value in world.s3.objects.items() if "/raw/" not in key}
    with pytest.raises(ReportFailed, match="no record"):
        report.report(world.given("run-1"), world.rt)


def test_the_console_s_stray_comment_is_no_mistake():
    """What its form for a new execution begins with; another unknown key still is one."""
    given = {"Comment": "Insert your JSON here", "experiment": "rehearsal"}
    assert parse_request(given).experiment == "rehearsal"
    assert parse_request({"Comment": "x", "resume": "run-20260101-000000-abcd"}).resume
    with pytest.raises(InvalidExperiment, match="is not known here"):
        parse_request({"Kommentar": "x"})


def test_a_damaged_line_is_named(world):
    world.s3.objects["runs/run-1/raw/sd/repeat-line.jsonl"] += b'{"run_id": 1}'
    with pytest.raises(ReportFailed, match=r"raw/sd/repeat-line\.jsonl line 9"):
        report.report(world.given("run-1"), world.rt)


def test_the_comparison_s_figures_are_published_in_the_sample_s_namespace(world):
    answer = report.report(world.given("run-1"), world.rt)
    assert answer.unpublished == ()
    assert {datum["Namespace"] for datum in world.cloudwatch.data} == {names.METRIC_NAMESPACE}
    (gain,) = {value for (*_, variant, _case), value in published(world, "Speedup").items() if variant == "SD"}
    assert gain > 1.5
    assert published(world, "CostPerMillionOutputTokens")
    assert published(world, "SpeedupOverLastRun") == {}


def test_the_speed_up_is_held_against_the_last_run_that_asked_the_same():
    world = World()
    for run_id, seconds, request in (
        ("older", 0.5, None),
        ("last", 1.0, None),
        ("other-load", 0.25, {"experiment": "rehearsal", "set": {"workload.requests": 4}}),
        ("now", 1.25, None),
    ):
        measure(world, run_id, speculating_s=seconds, request=request)
        world.cloudwatch.data.clear()
        report.report(world.given(run_id), world.rt)
    (change,) = set(published(world, "SpeedupOverLastRun").values())
    assert change == pytest.approx(1.0 / 1.25, rel=0.02)


def test_a_bucket_with_years_of_runs_is_not_read_whole(world):
    """The newest by the time in their ids, whatever experiment they are of."""
    for number in range(2 * LOOKED_AT):
        world.s3.objects[f"runs/other-{20250101 + number}-120000-abcd/state.json"] = b"{}"
    read = []
    world.s3.before = lambda operation, key: read.append(key) if key.endswith("state.json") else None
    report.report(world.given("run-1"), world.rt)
    old = [key for key in read if key.startswith("runs/other-")]
    assert len(old) == LOOKED_AT and min(old) > f"runs/other-{20250101 + LOOKED_AT - 1}"


def test_what_another_version_wrote_is_passed_over(world):
    world.s3.objects["runs/newer/state.json"] = b'{"run_id": "newer", "of": "another version"}'
    measure(world, "run-2")
    world.s3.objects["runs/run-1/report.json"] = b'{"schema_version": 99}'
    assert report.report(world.given("run-2"), world.rt).unpublished == ()
    assert published(world, "Speedup")
    assert not published(world, "SpeedupOverLastRun")


def test_the_requests_metrics_are_published_once(world):
    """The report that is made again, and the run that resumes this one, send none of them a second time."""
    report.report(world.given("run-1"), world.rt)
    of_sd = [d for d in world.cloudwatch.data if d["MetricName"] == "TTFT" and d["Dimensions"][0]["Value"] == "SD"]
    assert sum(sum(datum["Counts"]) for datum in of_sd) == 8
    world.cloudwatch.data.clear()
    report.report(world.given("run-1"), world.rt)
    world.plan("run-2", {"resume": "run-1"})
    report.report(world.given("run-2"), world.rt)
    assert not published(world, "TTFT") and published(world, "Speedup")


def test_a_resumed_run_says_with_which_files_its_parts_were_measured():
    """Wave 0 with the artifacts of run-1, wave 1 with others; run-3 measures nothing, and knows it all the same."""
    world = World()
    world.plan("run-1", {"experiment": "rehearsal", "set": {"workload.rounds": 2}})
    walk(world, "run-1", 0)
    first = {key.rpartition("/")[0] + "/" for key in world.s3.objects if key.startswith("compiled/")}
    old = {folder: world.record().contents[folder] for folder in first}
    world.clean_up(DamagedFolder("x"))
    raw = {f"raw/{arm}/repeat-line.jsonl": record(arm, "repeat-line", 0, 1.0) for arm in ("base", "sd")}
    world.s3.objects |= {f"runs/run-1/{key}": each.model_dump_json().encode() + b"\n" for key, each in raw.items()}
    forget(world, "run-1", "measured_with")
    world.plan("run-2", {"resume": "run-1"})
    assert shown(world, "run-2") == (old, []), "its record was of an older version"
    for folder in first:
        world.s3.objects |= stored(folder, {"part-0.bin": b"new"})
    walk(world, "run-2", 1)
    now = {folder: world.record("run-2").contents[folder] for folder in first}
    told = sorted(
        f"{folder} was made anew after measuring had begun: its files had SHA-256 {old[folder]}, and have "
        f"{now[folder]} now."
        for folder in first
    )
    assert old != now and shown(world, "run-2") == (now, told)
    release.release(world.given("run-2"), world.rt)
    world.plan("run-3", {"resume": "run-2"})
    assert shown(world, "run-3") == (now, told)
    texts = [world.s3.objects[f"runs/run-3/report.{form}"].decode() for form in ("md", "html")]
    assert all(each in text for each in old.values() for text in texts)
    forget(world, "run-2", "measured_with")
    assert shown(world, "run-2") == (now, []), "a report that is made again of an older record"
    forget(world, "run-3", "measured_with", "contents")
    world.plan("run-4", {"resume": "run-3"})
    assert shown(world, "run-4") == (dict.fromkeys(first, ""), []), "a record of before there were hashes"


def test_a_wave_that_broke_off_counts_as_measured_with_its_files():
    world = World()
    world.run_through(until="Smoke")
    assert world.record().measured_with == {}
    world.trouble["benchmark"] = lambda pod: None
    WAITING["Benchmark"](world.given("run-1"), world.rt)
    assert world.record().measured_with == {folder: (now,) for folder, now in world.record().contents.items()}


def test_the_report_has_the_hash_of_each_model_that_an_arm_loaded() -> None:
    world = measured()
    served = {each["variant"]: each["models"] for each in world.report()["context"]["served"]}
    hashes = {f"s3://bucket/{folder}": now for folder, now in world.record().contents.items()}
    assert len(served["sd"]) == 2 and served["base"].items() < served["sd"].items() <= hashes.items()


def walk(world: World, run_id: str, wave: int) -> None:
    for step in WAITING:
        world.finish(step, run_id, wave)


def forget(world: World, run_id: str, *fields: str) -> None:
    """As an older version wrote the run's record."""
    key = f"runs/{run_id}/state.json"
    kept = {name: value for name, value in json.loads(world.s3.objects[key]).items() if name not in fields}
    world.s3.objects[key] = json.dumps(kept).encode()


def shown(world: World, run_id: str) -> tuple[dict[str, str], list[str]]:
    """The artifacts of the arms with their hashes, and the notes of such that were made anew."""
    document = world.report(run_id)
    served = {
        each["artifact"].removeprefix("s3://bucket/"): each["artifact_sha256"] for each in document["context"]["served"]
    }
    return served, [note for note in document["notes"] if "made anew" in note]


@pytest.mark.parametrize("error", ["Throttling", "AccessDenied"])
def test_what_cloudwatch_did_not_take_is_said_fails_no_run_and_a_resumed_run_sends_it(world, error):
    taken = world.cloudwatch.put_metric_data

    def refuse(**given):
        raise client_error(error, "PutMetricData")

    world.cloudwatch.put_metric_data = refuse
    answer = report.report(world.given("run-1"), world.rt)
    assert error in answer.unpublished[0] and answer.verdict and "runs/run-1/report.html" in world.s3.objects
    world.cloudwatch.put_metric_data = taken
    for resumed, sent in (("run-2", True), ("run-3", False)):
        world.plan(resumed, {"resume": "run-1"})
        report.report(world.given(resumed), world.rt)
        assert bool(published(world, "TTFT")) == sent
        world.cloudwatch.data.clear()


def samples(world: World) -> float:
    """How many first tokens CloudWatch has counted, by the public sample's dimensions."""
    return sum(
        sum(datum["Counts"])
        for datum in world.cloudwatch.data
        if datum["MetricName"] == "TTFT" and len(datum["Dimensions"]) == 2
    )


def test_what_cloudwatch_took_before_it_throttled_is_not_sent_again(world, monkeypatch):
    """Calls of seven metrics; the third is throttled. What the report of run-1 sent, the resumed run leaves out."""
    monkeypatch.setattr(publishing, "MAX_DATA_PER_CALL", 7)
    taken, made = world.cloudwatch.put_metric_data, []

    def throttle(**given):
        made.append(given)
        if len(made) >= 3:
            raise client_error("Throttling", "PutMetricData")
        taken(**given)

    world.cloudwatch.put_metric_data = throttle
    assert report.report(world.given("run-1"), world.rt).unpublished
    assert len(world.cloudwatch.data) == 14 and world.record().published == ()
    world.cloudwatch.put_metric_data = taken
    for resumed in ("run-2", "run-3"):
        world.plan(resumed, {"resume": "run-1"})
        assert report.report(world.given(resumed), world.rt).unpublished == ()
        assert samples(world) == 2 * 8
    assert world.record().published == (0,)


def test_what_a_resumed_run_measured_is_not_noted_in_the_record_of_the_other():
    """Else the next run that resumes that one would measure wave 1 anew, and never send it."""
    world = World()
    world.plan("run-1", {"experiment": "rehearsal", "set": {"workload.rounds": 2}})
    walk(world, "run-1", 0)
    world.clean_up(DamagedFolder("x"))
    raw = {f"raw/{arm}/repeat-line.jsonl": record(arm, "repeat-line", 0, 1.0) for arm in ("base", "sd")}
    world.s3.objects |= {f"runs/run-1/{key}": each.model_dump_json().encode() + b"\n" for key, each in raw.items()}
    for resumed in ("run-2", "run-3"):
        world.cloudwatch.data.clear()
        world.plan(resumed, {"resume": "run-1"})
        walk(world, resumed, 1)
        for key, each in raw.items():
            later = each.model_copy(update={"round": 1, "run_id": resumed})
            world.s3.objects[f"runs/{resumed}/{key}"] += later.model_dump_json().encode() + b"\n"
        report.report(world.given(resumed), world.rt)
        assert world.record().published == (0,) and world.record(resumed).published == (0, 1)
        assert samples(world) == {"run-2": 4, "run-3": 2}[resumed]
        release.release(world.given(resumed), world.rt)


def test_a_damaged_record_of_the_resumed_run_fails_no_report(world):
    world.plan("run-2", {"resume": "run-1"})
    world.s3.objects["runs/run-1/state.json"] = b"{"
    assert report.report(world.given("run-2"), world.rt).unpublished == ()
    assert world.record("run-2").published == (0,)


def test_what_a_reader_must_know_of_the_engine_stands_above_its_figures(world):
    caveat = run.load_run(world.rt.store, "run-1").plan.engine.caveat
    assert "says anything about Trainium" in caveat
    report.report(world.given("run-1"), world.rt)
    assert caveat in json.loads(world.s3.objects["runs/run-1/report.json"])["notes"]
