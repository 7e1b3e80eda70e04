"""Conversations: the next turn holds the first arm's own answer, in every arm, round, load and process of a run."""

import json
from itertools import groupby, pairwise
from pathlib import Path

import pytest
from specdecode.benchmark.loading import Options
from specdecode.benchmark.prompts import BadPrompts
from specdecode.benchmark.results import BadResults
from specdecode.experiment.benchmark_spec import BenchmarkSpec
from specdecode.experiment.workload import PromptKind, TestCase
from specdecode.measures.plausibility import smaller_load, under_way
from specdecode.prompts import PromptsOf, digest
from specdecode.records import RequestRecord

from tests.specdecode.benchmark import making
from tests.specdecode.benchmark.pace import UNDECIDED, Pace
from tests.specdecode.benchmark.running import records, run
from tests.specdecode.benchmark.virtual import World

ROWS = [
    {"id": "a", "category": "chat", "turns": ["a1", "a2", "a3"]},
    {"id": "b", "category": "chat", "turns": ["b1", "b2"], "system": "Be brief."},
    {"id": "c", "category": "chat", "turns": ["c1"]},
]
TURNS = 6
BASE, SD = "w" * 8, "v" * 8
"""What either arm answers to whatever it is asked."""
KEPT = "conversations/chat.json"


def talks(tmp_path: Path, *, arms: tuple[str, ...] = ("base", "sd"), rows=ROWS, **workload: object) -> BenchmarkSpec:
    path = tmp_path / "chat.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    given = PromptsOf(set="chat", sha256=digest(path.read_bytes()), category="chat")
    case = TestCase(name="chat", label="chat", kind=PromptKind.SET, text=str(path), prompts=given, structured=False)
    return making.spec(arms=arms, cases=(case,), **{"requests": TURNS, **workload})


def said(pace: Pace) -> list[list[str]]:
    """What was asked with, without probe and warm-up, each as its texts."""
    bodies = [[message["content"] for message in body["messages"]] for body in pace.bodies]
    return [texts for texts in bodies if not texts[0].startswith(("Probe", "Warm-up"))]


def measured(folder: Path, variant: str) -> list[RequestRecord]:
    found = [record for record in records(folder, variant, "chat") if not record.warmup]
    return sorted(found, key=lambda record: (record.round, record.level, record.index))


def test_the_next_turn_holds_the_first_arms_answer_in_every_arm(tmp_path: Path) -> None:
    base, sd = Pace(), Pace(letter="v")
    run(talks(tmp_path), Options(folder=tmp_path), base, sd)
    expected = [
        ["a1"],
        ["a1", BASE, "a2"],
        ["a1", BASE, "a2", BASE, "a3"],
        ["Be brief.", "b1"],
        ["Be brief.", "b1", BASE, "b2"],
        ["c1"],
    ]
    assert said(base) == said(sd) == expected
    roles = [message["role"] for message in base.bodies[-2]["messages"]]
    assert roles == ["system", "user", "assistant", "user"]
    ours, theirs = measured(tmp_path, "base"), measured(tmp_path, "sd")
    assert [(r.index, r.turn, r.prompt_id) for r in ours] == [
        (0, 0, "a"),
        (1, 1, "a"),
        (2, 2, "a"),
        (3, 0, "b"),
        (4, 1, "b"),
        (5, 0, "c"),
    ]
    assert [r.prompt_sha256 for r in ours] == [r.prompt_sha256 for r in theirs]
    assert len({r.prompt_sha256 for r in ours}) == TURNS
    assert [r.output for r in theirs] == [SD] * TURNS
    assert [r.requested_input_tokens for r in ours[:3]] == [1, 2 + 8, 2 + 16]


def test_the_results_name_the_set_and_say_who_keeps_beginnings(tmp_path: Path) -> None:
    header = {"set": {"name": "talks", "version": "3", "licence": "CC0"}}
    cached = 'vllm:cache_config_info{block_size="128",enable_prefix_caching="True",engine="0"} 1.0\n'
    given = talks(tmp_path, rows=[header, *ROWS])
    servers = run(given, Options(folder=tmp_path), Pace(metrics=cached), Pace()).servers
    prompts = given.workload.cases[0].prompts
    assert prompts is not None
    assert [(s.name, s.version, s.licence, s.sha256, s.prompts) for s in servers.sets] == [
        ("talks", "3", "CC0", prompts.sha256, 3)
    ]
    assert servers.prefix_caching == {"base": True}
    again = run(given, Options(folder=tmp_path), Pace(metrics=cached), Pace()).servers
    assert again.sets == servers.sets


def test_a_turn_is_sent_when_the_one_before_it_has_ended(tmp_path: Path, world: World) -> None:
    base = Pace(gap_s=0.02)
    run(talks(tmp_path, arms=("base",), concurrency=3), Options(folder=tmp_path), base)
    ours = measured(tmp_path, "base")
    for before, after in pairwise(ours):
        if after.turn:
            assert after.sent_s >= before.sent_s + before.end_s
    assert base.most_under_way == 3


def test_the_first_arm_begins_a_conversation_whatever_the_order(tmp_path: Path) -> None:
    """Every other case is loaded in reverse; not one whose answers are still to come."""
    given = talks(tmp_path)
    before = making.case("before")
    both = given.model_copy(
        update={"workload": given.workload.model_copy(update={"cases": (before, *given.workload.cases)})}
    )
    base, sd = Pace(), Pace(letter="v")
    run(both, Options(folder=tmp_path), base, sd)
    asked = [texts for texts in said(sd) if texts[0] in ("a1", "Be brief.", "c1")]
    assert asked[2] == ["a1", BASE, "a2", BASE, "a3"]


def test_other_rounds_arms_and_processes_are_asked_with_the_same(tmp_path: Path) -> None:
    """A second wave knows neither the first arm nor its records: only what was kept."""
    first = talks(tmp_path, arms=("base",))
    run(first, Options(folder=tmp_path), Pace())
    kept = (tmp_path / KEPT).read_bytes()
    (tmp_path / "raw" / "base" / "chat.jsonl").unlink()
    second = talks(tmp_path, arms=("sd", "base")).model_copy(update={"round": 1, "wave": 1})
    sd = Pace(letter="v")
    run(second, Options(folder=tmp_path), sd, Pace(letter="u"))
    assert ["a1", BASE, "a2", BASE, "a3"] in said(sd)
    assert (tmp_path / KEPT).read_bytes() == kept


def test_every_load_gets_the_same_turns(tmp_path: Path) -> None:
    base = Pace()
    run(talks(tmp_path, arms=("base",), concurrency=(1, 2)), Options(folder=tmp_path), base)
    by_level = [list(group) for _, group in groupby(measured(tmp_path, "base"), key=lambda record: record.level)]
    assert [len(each) for each in by_level] == [TURNS, TURNS]
    assert [r.prompt_sha256 for r in by_level[0]] == [r.prompt_sha256 for r in by_level[1]]


def test_where_measuring_may_stop_early_the_first_arm_is_first_at_every_look(tmp_path: Path, world: World) -> None:
    rows = [{"id": str(at), "category": "chat", "turns": [f"{at}a", f"{at}b", f"{at}c"]} for at in range(5)]
    given = talks(tmp_path, rows=rows, requests={"min": 4, "max": 15, "precision": 0.0001})
    base, sd = given.arms
    given = given.model_copy(update={"arms": (base, sd.model_copy(update={"compare_to": "base"}))})
    run(
        given,
        Options(folder=tmp_path),
        *(Pace(letter=name, in_turn_s=waits) for name, waits in zip("wv", UNDECIDED, strict=True)),
    )
    ours, theirs = measured(tmp_path, "base"), measured(tmp_path, "sd")
    assert [(r.index, r.prompt_sha256) for r in ours] == [(r.index, r.prompt_sha256) for r in theirs]
    assert len(theirs) == 15, "looks at 4, 8, 12 and 15: the last would begin with the other arm"


@pytest.mark.parametrize("requests", [64, {"min": 4, "max": 64, "precision": 0.0001}])
def test_arms_alternate_after_so_many_conversations_that_the_streams_are_busy_together(
    tmp_path: Path, world: World, requests: object
) -> None:
    rows = [{"id": str(at), "category": "chat", "turns": [f"{at}-{turn}" for turn in range(4)]} for at in range(16)]
    base, sd = Pace(first_s=0.04, gap_s=0.01), Pace(letter="v", first_s=0.04, gap_s=0.01)
    given = talks(tmp_path, rows=rows, requests=requests, concurrency=4)
    if requests != 64:
        base_arm, sd_arm = given.arms
        given = given.model_copy(update={"arms": (base_arm, sd_arm.model_copy(update={"compare_to": "base"}))})
    run(given, Options(folder=tmp_path), base, sd)
    for variant in ("base", "sd"):
        ours = measured(tmp_path, variant)
        assert under_way(ours) > 3.5
        assert {record.portion for record in ours} == {0, 1}
        assert smaller_load(ours, 4) == []


def test_fewer_conversations_than_streams_are_told(tmp_path: Path, world: World) -> None:
    rows = [{"id": "a", "category": "chat", "turns": list("abcdefgh")}]
    given = talks(tmp_path, arms=("base",), rows=rows, requests=8, concurrency=4)
    (said,) = run(given, Options(folder=tmp_path), Pace(first_s=0.04)).servers.notes
    assert said.startswith("base / chat at 4 at a time: 1.0 requests ran at a time on average, not 4: send more")


def test_in_an_open_loop_conversations_arrive_and_turns_follow(tmp_path: Path) -> None:
    """Six requests in three conversations at 60 requests a second: 30 conversations a second."""
    base = Pace()
    run(talks(tmp_path, arms=("base",), rate=60.0), Options(folder=tmp_path, arrivals="constant"), base)
    ours = measured(tmp_path, "base")
    due = [record.scheduled_s for record in ours if record.turn == 0]
    assert [after - before for before, after in pairwise(due)] == pytest.approx([1 / 30] * 2)
    assert all(record.scheduled_s is None for record in ours if record.turn)


def test_within_a_time_a_set_is_sent_whole_before_it_comes_again(tmp_path: Path, world: World) -> None:
    rows = [{"id": str(at), "category": "chat", "turns": [f"q{at}"]} for at in range(8)]
    given = talks(tmp_path, arms=("base",), rows=rows, requests=2).model_copy(update={"duration_s": 1.0})
    run(given, Options(folder=tmp_path), Pace(first_s=0.05))
    ours = measured(tmp_path, "base")
    assert len(ours) > 16 and [record.index for record in ours] == list(range(len(ours)))
    assert [record.prompt_id for record in ours[:16]] == [str(at) for at in range(8)] * 2


def test_within_a_time_there_are_no_conversations(tmp_path: Path, world: World) -> None:
    """Past the first arm's last answer a faster one would be asked first turns alone."""
    given = talks(tmp_path).model_copy(update={"duration_s": 1.0})
    base = Pace(first_s=0.05)
    with pytest.raises(BadPrompts, match=r"chat: the set has conversations.*--requests in place of --duration"):
        run(given, Options(folder=tmp_path), base, Pace(first_s=0.01))
    assert not base.bodies


@pytest.mark.parametrize(("whole", "stored"), [(0, 0), (1, 0), (2, 0), (4, 0), (2, 1), (4, 1)])
def test_a_run_that_broke_off_goes_on_in_the_middle_of_a_conversation(tmp_path: Path, whole: int, stored: int) -> None:
    """With the answers that were stored, and those that came after."""
    given = talks(tmp_path, warmup_requests=0)
    run(given, Options(folder=tmp_path), Pace(), Pace(letter="v"))
    first = {variant: measured(tmp_path, variant) for variant in ("base", "sd")}
    path = tmp_path / "raw" / "base" / "chat.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:whole]))
    (tmp_path / "raw" / "sd" / "chat.jsonl").unlink()
    kept = json.loads((tmp_path / KEPT).read_text())
    (tmp_path / KEPT).unlink()
    if stored:
        kept["answers"] = {at: said for at, said in kept["answers"].items() if int(at) < stored}
        (tmp_path / KEPT).write_text(json.dumps(kept))
    base, sd = Pace(), Pace(letter="v")
    outcome = run(given, Options(folder=tmp_path), base, sd)
    assert len(said(base)) == TURNS - whole
    assert outcome.sent["sd", "chat", "c1"].started == TURNS
    for variant, before in first.items():
        now = measured(tmp_path, variant)
        assert [r.prompt_sha256 for r in now] == [r.prompt_sha256 for r in before]


def test_what_follows_an_answer_that_never_came_is_asked_of_no_arm(tmp_path: Path) -> None:
    base, sd = Pace(breaks=("a2",)), Pace(letter="v")
    outcome = run(talks(tmp_path), Options(folder=tmp_path), base, sd)
    for variant, failed in (("base", 1), ("sd", 0)):
        found = measured(tmp_path, variant)
        assert [r.index for r in found] == [0, 1, 3, 4, 5]
        assert sum(r.error is not None for r in found) == failed
    assert "chat: 1 of 6 turns are asked of no arm, as base gave no answer" in outcome.servers.notes[0]


def test_reasoning_is_not_said_again() -> None:
    from specdecode.benchmark.histories import content_of
    from specdecode.records import Chunk

    chunks = (
        Chunk(at_s=0.1, chars=5, reasoning_chars=5),
        Chunk(at_s=0.2, chars=4, reasoning_chars=1),
        Chunk(at_s=0.3, chars=2),
    )
    assert content_of(making.record().model_copy(update={"chunks": chunks, "output": "thinkkYes.!"})) == "Yes.!"


def test_a_model_without_a_chat_template_goes_on_with_the_text(tmp_path: Path) -> None:
    base = Pace()
    rows = [{"id": "a", "category": "chat", "turns": ["a1\n", "a2"]}]
    run(talks(tmp_path, arms=("base",), rows=rows, requests=2, endpoint="completions"), Options(folder=tmp_path), base)
    assert [body["prompt"] for body in base.bodies][-2:] == ["a1\n", f"a1\n{BASE}\na2"]


def test_all_arms_at_once_cannot_have_conversations(tmp_path: Path) -> None:
    with pytest.raises(BadPrompts, match=r"a is a conversation.*interleaved or sequential"):
        run(talks(tmp_path, load="simultaneous"), Options(folder=tmp_path), Pace(), Pace())


OTHERS = {"variant": "base", "answers": {"0": {"prompt_sha256": "0" * 64, "tokens": 1, "text": "x"}}}


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "cannot be read"),
        (b'{"variant": "base"}', "cannot be read"),
        (b'{"variant": "base", "answers": {"x": 1}}', "cannot be read"),
        (json.dumps(OTHERS).encode(), "not to the prompts"),
    ],
)
def test_kept_answers_that_are_damaged_or_of_others_are_not_used(tmp_path: Path, data: bytes, says: str) -> None:
    (tmp_path / "conversations").mkdir()
    (tmp_path / KEPT).write_bytes(data)
    base = Pace()
    with pytest.raises(BadResults, match=says):
        run(talks(tmp_path), Options(folder=tmp_path), base, Pace())
    assert not base.bodies
