import json
from pathlib import Path

import pytest
from specdecode.benchmark import __main__ as command
from specdecode.benchmark.loading import Options
from specdecode.benchmark.probe import ArmNotReady
from specdecode.benchmark.runner import Outcome, SentCounts, failed_beyond
from specdecode.records import Servers

from tests.local_http import Handler, served
from tests.specdecode.benchmark.chaos import chaos_server
from tests.specdecode.benchmark.making import case, spec
from tests.specdecode.benchmark.pace import Pace
from tests.specdecode.benchmark.running import records, run


def test_two_arms_get_the_same_requests(tmp_path: Path) -> None:
    base, sd = Pace(chunk_tokens=(1,) * 8), Pace(chunk_tokens=(1, 3, 4))
    given = spec(arms=("base", "sd"), cases=(case("one"), case("two", text="bye")), requests=3)
    outcome = run(given, Options(folder=tmp_path), base, sd)
    assert not outcome.problems
    assert base.prompts == ["Probe: hello"] + ["hello"] * 4 + ["bye"] * 4  # the probe, then warm-up and three of each
    assert sorted(sd.prompts) == sorted(base.prompts)
    assert len({json.dumps(body, sort_keys=True) for body in base.bodies[1:5]}) == 1
    assert base.bodies[1:] == sd.bodies[1:]
    assert outcome.sent == {(arm, name, "c1"): (3, 0) for arm in ("base", "sd") for name in ("one", "two")}
    for arm, sizes in (("base", [1] * 8), ("sd", [1, 3, 4])):
        assert [chunk.tokens for chunk in records(tmp_path, arm, "two")[-1].chunks] == sizes
    assert [(r.warmup, r.index) for r in records(tmp_path, "sd", "one")] == [(True, 0), *((False, i) for i in range(3))]


def test_a_plain_server_is_asked_plainly(tmp_path: Path) -> None:
    pace = Pace(refuses=("continuous_usage_stats", "ignore_eos", "min_tokens"))
    outcome = run(spec(ignore_eos=True), Options(folder=tmp_path), pace)
    facts = outcome.servers.arms["base"]
    assert (facts.running_usage, facts.ignore_eos, facts.usage) == (False, False, True)
    assert "ignore_eos" not in pace.bodies[-1]
    last = records(tmp_path)[-1]
    assert last.completion_tokens == 8 and {chunk.tokens for chunk in last.chunks} == {None}


def test_a_server_without_usage_gives_times_and_no_counts(tmp_path: Path) -> None:
    outcome = run(spec(), Options(folder=tmp_path), Pace(refuses=("stream_options",)))
    assert outcome.servers.arms["base"].usage is False
    assert all(r.completion_tokens is None and "usage" in (r.usage_problem or "") for r in records(tmp_path))


def test_the_counters_are_of_the_measured_requests(tmp_path: Path) -> None:
    (found,) = run(spec(requests=4), Options(folder=tmp_path), Pace(metrics=metrics_text)).servers.counters
    assert found.model_dump(exclude={"variant", "case", "unit", "round", "level"}) == {
        "drafts": 8, "draft_tokens": 24, "accepted_tokens": 20, "accepted_per_position": (8, 8, 4), "trusted": True,
    }  # fmt: skip


def metrics_text(requests: int) -> str:
    """vLLM's counters after so many requests of two steps, each of three drafted tokens."""
    values = {"drafts": 2, "draft_tokens": 6, "accepted_tokens": 5}
    lines = [f'vllm:spec_decode_num_{name}_total{{model="m"}} {requests * each}.0' for name, each in values.items()]
    lines += [
        f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{model="m",position="{position}"}} {requests * each}'
        for position, each in enumerate((2, 2, 1))
    ]
    return "# HELP vllm:spec_decode_num_drafts_total x\n" + "\n".join(lines)


def test_it_is_told_why_counters_are_not_used(tmp_path: Path) -> None:
    restarted = run(spec(), Options(folder=tmp_path / "a"), Pace(metrics=lambda requests: metrics_text(9 - requests)))
    assert not restarted.servers.counters
    assert restarted.servers.notes == (
        "base/case at c1: the server's own counters of speculation are not used: they went back during the load "
        "(was the server restarted?).",
    )
    wrong = run(spec(), Options(folder=tmp_path / "b"), Pace(metrics=metrics_text(1).replace("6.0", "1e99")))
    assert "num_draft_tokens is 1e99" in wrong.servers.notes[0] and not wrong.servers.arms["base"].counters


def test_counters_that_the_engine_is_known_to_fake_are_marked(tmp_path: Path) -> None:
    given = spec(requests=4).model_copy(update={"trusted_counters": False})
    (found,) = run(given, Options(folder=tmp_path), Pace(metrics=metrics_text(1))).servers.counters
    assert found.trusted is False


def test_an_arm_that_is_down_stops_the_run_before_any_load(tmp_path: Path) -> None:
    with pytest.raises(ArmNotReady, match=r"arm sd \(http://127.0.0.1:9\).*Nothing listens there: check host and port"):
        run(spec(arms=("base", "sd")), Options(folder=tmp_path), Pace(), "http://127.0.0.1:9")
    assert not (tmp_path / "raw").exists()


@pytest.mark.parametrize(
    ("model", "says"), [("absent", "does not serve 'absent'"), ("status-400", "too long"), ("no-text", "empty")]
)
def test_an_arm_that_answers_wrongly_is_named(tmp_path: Path, model: str, says: str) -> None:
    with pytest.raises(ArmNotReady, match=says):
        run(spec(model=model), Options(folder=tmp_path), chaos_server())


@pytest.mark.parametrize("name", ['""', '" "', "1e999", "5", "null", "[1]"])
def test_a_model_without_a_name_is_none(tmp_path: Path, name: str) -> None:
    class Models(Handler):
        def do_GET(self) -> None:
            self.reply(body=b'{"data": [{"id": %s}]}' % name.encode())

    with served(Models) as url, pytest.raises(ArmNotReady, match=r"name the model .* lists none at /v1/models"):
        run(spec(model=""), Options(folder=tmp_path), url)


def test_an_entry_that_is_no_model_hides_no_others(tmp_path: Path) -> None:
    class Models(Handler):
        def do_GET(self) -> None:
            self.reply(body=b'{"data": [{"id": 7}, {"id": "m"}]}')

    with served(Models) as url, pytest.raises(ArmNotReady, match="does not serve 'x', but m"):
        run(spec(model="x"), Options(folder=tmp_path), url)


@pytest.mark.parametrize(
    ("started", "failed", "limit", "said"),
    [
        (20, 1, 0.1, []),
        (10, 2, 0.1, ["b/x/c1: 20% of the requests failed"]),
        (10, 2, 0.5, []),
        (3, 3, 1.0, ["b/x/c1: 100% of the requests failed"]),
        (0, 0, 1.0, ["b/x/c1: no request was sent"]),
    ],
)
def test_failed_beyond(started: int, failed: int, limit: float, said: list[str]) -> None:
    sent = {("b", "x", "c1"): SentCounts(started=started, failed=failed)}
    assert failed_beyond(Outcome(servers=Servers(run_id="r"), sent=sent, problems=()), limit) == said


def test_command_line_names_every_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "spec.json"
    path.write_text(spec(arms=("base", "sd")).model_dump_json())
    assert command.main(["--spec", str(path), "--arm", "base=ftp://x", "--arm", "other=http://x:1"]) == 2
    assert "ftp://x" in capsys.readouterr().err
    assert command.main(["--spec", str(path), "--arm", "base=http://x:1", "--arm", "other=http://x:1"]) == 2
    error = capsys.readouterr().err
    assert "no --arm sd=URL" in error
    assert "--arm other" in error
    path.write_text(json.dumps({"schema_version": 1, "wave": -1}))
    assert command.main(["--spec", str(path)]) == 2
    assert "run_id" in capsys.readouterr().err
    assert command.main(["--spec", str(tmp_path / "none.json")]) == 2
