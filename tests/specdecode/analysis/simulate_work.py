"""Runs over a set of prompts by category, each prompt with an acceptance of its own, at one load or more."""

import hashlib
import json
import random
from collections.abc import Iterator

from specdecode.analysis import Comparison, compare
from specdecode.experiment.model import Experiment
from specdecode.experiment.workload import Level, PromptKind, TestCase
from specdecode.prompts import PromptSet, PromptsOf, read_set
from specdecode.records import Drafted, RequestRecord

from tests.specdecode.analysis.simulate import context, experiment, request

K = 7
HOSTILE = "<script>alert(1)</script> | `pwned` \u202e](javascript:alert(2)) ![x](https://evil.example/y) \x1b[31m"
WORK = {"code": 0.85, "extraction": 0.93, "chat": 0.35, "poems": 0.02}
"""Category -> acceptance of a draft token, on average over its prompts."""


def prompts(count: int = 20) -> PromptSet:
    """Each category's prompts; the first of each is hostile, its id too, the second is long."""
    rows = []
    for category in WORK:
        for at in range(count):
            text = f"{category} {at}: please help me with this piece of work, number {at}."
            if at < 2:
                text = f"{HOSTILE} {category}" if at == 0 else f"{text} " + "word " * 1000
            name = f"{category}-{at}" if at else f"{category}-0<script>alert(1)</script>"
            rows.append({"id": name, "category": category, "turns": [text]})
    return read_set("".join(json.dumps(row) + "\n" for row in rows).encode(), name="tickets")


def measured(found: PromptSet, *, concurrency: tuple[int, ...] = (4,), requests: int = 20) -> Experiment:
    cases = tuple(
        TestCase(
            name=category,
            label=category,
            kind=PromptKind.SET,
            structured=category in ("code", "extraction"),
            prompts=PromptsOf(set="tickets", sha256=found.sha256, category=category),
        )
        for category in WORK
    )
    one = experiment(ks=(K,), requests=requests, rounds=2, cases=cases)
    return one.model_copy(update={"workload": one.workload.model_copy(update={"concurrency": concurrency})})


def gained(category: str, at: int) -> float:
    """Acceptance of a prompt: the last ones of a category gain most."""
    return min(0.98, WORK[category] * (0.6 + 0.04 * at if at > 1 else 0.1 + 0.3 * at))


def records(one: Experiment, found: PromptSet, *, seed: int = 1) -> Iterator[RequestRecord]:
    rng = random.Random(seed)
    for level in one.workload.levels:
        slower = 1.0 + 0.03 * (level.value - 1)
        for number in range(one.rounds):
            for category in WORK:
                rows = found.of(category)
                for variant in one.variants:
                    k = K if variant.speculation else 0
                    for index in range(one.workload.requests_of(one.workload.cases[0], level)):
                        row = rows[index % len(rows)]
                        made = request(
                            variant=variant.name, case=category, index=index, round=number, rng=rng, k=k,
                            acceptance=gained(category, index % len(rows)),
                            step_s=0.02 * (1.0 + 0.12 * k) * (slower if k else 1.0),
                        )  # fmt: skip
                        yield _named(made, found, row.id, row.text, level, k)


def as_talk(record: RequestRecord) -> RequestRecord:
    """Requests of `chat` as turns of conversations, three each, with a prefix cache that knows the turns before."""
    turn = record.index % 3 if record.case == "chat" else 0
    known = {"turn": turn, "prompt_tokens": 40 + 250 * turn, "cached_tokens": 240 * turn}
    return record.model_copy(update=known) if record.case == "chat" else record


def _named(record: RequestRecord, found: PromptSet, name: str, text: str, level: Level, k: int) -> RequestRecord:
    """With its prompt, its load, and what the server says of its drafts."""
    steps = [chunk.tokens or 0 for chunk in record.chunks[1:]]
    positions = tuple(sum(tokens > at for tokens in steps) for at in range(1, k + 1))
    drafted = Drafted(
        drafts=len(steps), draft_tokens=k * len(steps), accepted_tokens=sum(positions), accepted_per_position=positions
    )
    return record.model_copy(
        update={
            "prompt_set": f"tickets@{found.sha256}",
            "prompt_id": name,
            "prompt_sha256": hashlib.sha256(text.encode()).hexdigest(),
            "level": level.name,
            "drafted": drafted if k else None,
        }
    )


def by_work(*, concurrency: tuple[int, ...] = (4,), texts: bool = True, talks: bool = False) -> Comparison:
    found = prompts()
    one = measured(found, concurrency=concurrency)
    key = one.workload.cases[0].prompts
    assert key is not None
    sets = {key.key: found} if texts else {}
    made = map(as_talk, records(one, found)) if talks else records(one, found)
    around = context(prefix_caching={"base": True, "sd": True}) if talks else context()
    return compare(experiment=one, records=made, context=around, sets=sets)
