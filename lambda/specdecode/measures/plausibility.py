"""Whether figures can be true: judged here once, for runs, for benches and for results of other tools.

*Impossible* is what no server does, or what contradicts itself. Such figures are not shown, no arm with them is
recommended, and no gate lets them pass. *Late* is a load generator that fell behind: its times say nothing for sure.
ADR 200.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any

from specdecode.experiment.base import MOST_DRAFTED
from specdecode.measures.distribution import Summary, mean, summarize
from specdecode.records import RequestRecord

SOME = 0.05
"""Share of an arm's requests, or of compared answers, up to which an oddity may be chance or rounding."""
FEW_PAIRS = 4
"""Fewer answers that differ from their first token on may be one prompt with a tie, asked in each round."""
SLACK = 1.1
"""Factor by which a sum of many measured values may pass its bound."""
TOKENS_BESIDE_TEXT = 4
"""Tokens of an answer that need no text: its end, and marks around its thoughts."""
MOST_SPEEDUP = 100.0
"""No change of a server that is compared here makes it so much faster or slower; a wrong unit does."""
AGREE = 0.02
"""Relative difference up to which two ways to compute a figure count as equal."""
LENGTHS = ("mean prompt tokens", "mean answer tokens")
"""What an import records of the lengths of its requests."""
ALIKE = 0.1
"""Relative difference up to which such lengths may be chance: it moves a speed-up by less than 5% if the wait for the
first token is less than half of a request's time."""
ROUNDED = 1e-6
"""Relative difference that rounding may make between two equal statistics of one file."""
ORDERED = ("min", "p25", "p50", "p75", "p90", "p95", "p99", "max")
"""No statistic is above the next. Median and mean are within one standard deviation (Hotelling, Solomons 1932)."""

DOUBTFUL_S = 0.005
"""A chunk whose time may be wrong by more than this is doubtful."""
DOUBTFUL_SHARE = 0.01
"""Share of doubtful chunks, and of requests whose first chunk is doubtful, above which a whole load is doubtful. Below
it 99% of the chunks are not wrong by more than DOUBTFUL_S, which is the tightest bound on a p99 that
docs/benchmarks.md gives; and so is the time to the first token of 99% of the requests."""
HELD_BACK_S = 0.1
"""A request of an open loop that is sent this many seconds after it was due has waited for other requests to end."""
WATCH_S = 0.05
"""Seconds between two looks of the client at its own delays (benchmark/client.py). It may not see a shorter delay."""
SHORTEST_GAP_S = 2e-4
"""Least mean time between two chunks, in seconds. Below it the chunks are no steps of an engine: the text was complete
before and came in one go. The fastest service that is independently measured gives 2,522 tokens/s to one user, 0.4 ms a
token (Artificial Analysis, May 2025: Llama 4 Maverick on Cerebras); a step of a tiny model on a CPU takes 2 ms
(benchmarks/results)."""
FULL = 2 / 3
"""Share of a closed loop's requests at a time that run at least, so that its name says the load. A choice of ours: of
two requests a stream (PER_STREAM) the last run beside fewer."""
APART_SHARE = 0.05
"""Share of a level's time in which not all clients had requests under way, above which the level is doubtful. Its
throughput is divided by the whole time, so it may be too small by that share. With one client the last requests run
beside fewer others too; every level has that, and it is no doubt of this kind."""


def doubtful(records: Sequence[RequestRecord]) -> bool:
    """Whether the load generator may have changed the times of a load. Each client is judged alone, and one late client
    is enough: the requests of the others must not hide it.
    """
    clients: dict[int, list[RequestRecord]] = defaultdict(list)
    for record in records:
        clients[record.client].append(record)
    return bool(apart(records)) or any(map(_fell_behind, clients.values()))


def late(records: Sequence[RequestRecord]) -> bool:
    """Whether the speed of an arm at a load says nothing for sure: the load generator was late at the end of most of
    its answers, or by more than AGREE of their time, or it read more than SOME of the answers at once. A busy machine
    delays many requests a little, which is no reason; and where the kernel times what comes, chunks that lay there
    together have wrong times between them, but the answer's end, which its speed is counted by, has its own.
    """
    wrong_s = [min(record.time_doubt_s, record.end_s) if _timed_by_read(record) else 0.0 for record in records]
    behind = math.fsum(wrong_s) > AGREE * math.fsum(record.end_s for record in records)
    mostly = sum(each > DOUBTFUL_S for each in wrong_s) > len(records) / 2
    at_once = sum(map(read_late, records)) > SOME * len(records)
    held = held_back(records) > HELD_BACK_S
    return bool(apart(records)) or held or behind or at_once or (mostly and doubtful(records))


def too_near(record: RequestRecord) -> bool:
    """Whether the chunks came nearer to each other than steps of an engine."""
    return _written_s(record) < SHORTEST_GAP_S * (len(record.chunks) - 1)


def read_late(record: RequestRecord) -> bool:
    """Whether the chunks may be too near only since this client read several at once: its delay was as long as the
    steps of an engine, or the whole answer so short that a delay was not seen. Earlier versions did not record it.
    """
    if not record.doubtful_chunks or not too_near(record):
        return False
    steps_s = SHORTEST_GAP_S * (len(record.chunks) - 1)
    return record.end_s <= WATCH_S or _written_s(record) + record.time_doubt_s >= steps_s


def _written_s(record: RequestRecord) -> float:
    return record.chunks[-1].at_s - record.chunks[0].at_s if record.chunks else 0.0


def _fell_behind(records: Sequence[RequestRecord]) -> bool:
    late = [record for record in records if record.time_doubt_s > DOUBTFUL_S]
    chunks = sum(len(record.chunks) for record in records)
    return (
        sum(map(_doubtful_chunks, late)) > DOUBTFUL_SHARE * chunks
        or sum(map(_first_is_doubtful, late)) > DOUBTFUL_SHARE * len(records)
        or held_back(records) > HELD_BACK_S
    )


def _doubtful_chunks(record: RequestRecord) -> int:
    return len(record.chunks) if record.doubtful_chunks is None else record.doubtful_chunks


def _timed_by_read(record: RequestRecord) -> bool:
    """Whether each chunk has the time at which it was read, and not the kernel's: the last one too."""
    return _doubtful_chunks(record) >= len(record.chunks)


def _first_is_doubtful(record: RequestRecord) -> bool:
    """Chunks of one read have the same time, so the first of them may have come before it."""
    times = [chunk.at_s for chunk in record.chunks[:2]]
    return _timed_by_read(record) or (len(times) == 2 and times[0] == times[1])


def held_back(records: Iterable[RequestRecord]) -> float:
    """Longest time, in seconds, that a request of an open loop was sent after it was due."""
    return max((r.sent_s - r.scheduled_s for r in records if r.scheduled_s is not None), default=0.0)


def doubts(records: Iterable[RequestRecord]) -> list[str]:
    """What the user is told of a client that was late, however little: a sentence a reason; empty if it was not."""
    records = list(records)
    found = []
    if (doubt_s := max((record.time_doubt_s for record in records), default=0.0)) > DOUBTFUL_S:
        found.append(f"this client was late for some chunks: times may be wrong by up to {doubt_s * 1000:.1f} ms")
    if (delay_s := held_back(records)) > HELD_BACK_S:
        found.append(
            f"requests waited up to {delay_s:.1f} s to be sent, as too many were under way; "
            "the wait is in their times (a larger `ulimit -n` allows more)"
        )
    return found


def under_way(records: Sequence[RequestRecord]) -> float:
    """Requests under way while a request ran, itself included: mean over the request's time, then over requests."""
    met: list[float] = []
    for session in sorted({each.session for each in records}):
        both = [(each.sent_s, each.sent_s + each.end_s) for each in records if each.session == session]
        spans = [(start, end) for start, end in both if end > start]
        total, running, before = 0.0, 0, 0.0
        area: dict[float, float] = {}
        for at, step in sorted([(start, 1) for start, _ in spans] + [(end, -1) for _, end in spans]):
            total += running * (at - before)
            running, before = running + step, at
            area[at] = total
        met += [(area[end] - area[start]) / (end - start) for start, end in spans]
    return mean(met) if met else 0.0


def smaller_load(records: Sequence[RequestRecord], at_a_time: int) -> list[str]:
    """A sentence if far fewer requests of an arm ran at a time than the closed loop is meant to keep under way."""
    met = under_way(records)
    if not 0.0 < met < FULL * at_a_time:
        return []
    return [f"{met:.1f} requests ran at a time on average, not {at_a_time}: send more requests, or more conversations"]


def apart(records: Iterable[RequestRecord]) -> list[str]:
    """A sentence for each arm, case, round and level whose clients did not load together."""
    groups: dict[tuple[str, str, int, str], list[RequestRecord]] = defaultdict(list)
    for record in records:
        if record.clients > 1 and not record.warmup:
            groups[record.variant, record.case, record.round, record.level].append(record)
    found = []
    for (variant, case, round_, level), group in groups.items():
        if why := _why(group):
            place = f"{variant}/{case} at {level}" + (f" in round {round_ + 1}" if round_ else "")
            found.append(f"The load on {place} is doubtful: {why}.")
    return found


def _why(records: Sequence[RequestRecord]) -> str:
    clients = max(record.clients for record in records)
    if missing := sorted(set(range(clients)) - {record.client for record in records}):
        listed = ", ".join(map(str, missing))
        return f"of its {clients} clients there is no record of {listed}"
    share = apart_share(records, clients)
    return f"for {share:.0%} of its time not all of its {clients} clients were sending" if share > APART_SHARE else ""


def apart_share(records: Sequence[RequestRecord], clients: int) -> float:
    """Share of the time in which some but not all of `clients` had requests under way. `records` are those of one arm,
    case, round and level. A client counts from its first send to its last end in a session; after a restart it has
    another session.
    """
    sessions: dict[int, dict[int, tuple[float, float]]] = defaultdict(dict)
    for record in records:
        first, last = sessions[record.session].get(record.client, (record.sent_s, record.sent_s))
        end = record.sent_s + record.end_s
        sessions[record.session][record.client] = min(first, record.sent_s), max(last, end)
    whole = common = 0.0
    for spans in sessions.values():
        begins, ends = [begin for begin, _ in spans.values()], [end for _, end in spans.values()]
        whole += max(ends) - min(begins)
        common += max(0.0, min(ends) - max(begins)) if len(spans) == clients else 0.0
    return 1.0 - common / whole if whole > 0.0 else 0.0


def impossible_counts(records: Sequence[RequestRecord]) -> Iterator[str]:
    """What the server counts in an arm's completed requests of a case, and cannot have written."""
    tokens = sum(record.completion_tokens or 0 for record in records)
    unseen = hidden(records)
    size = sum(len(record.output.encode("utf-8", "replace")) for record in records if record.completion_tokens)
    if tokens - unseen > size * 1.02 + TOKENS_BESIDE_TEXT * len(records):
        but = f" (beside {unseen:,} of hidden reasoning)" if unseen else ""
        yield (
            f"the server counts {tokens - unseen:,} tokens{but} for {size:,} bytes of text: a token has at least one "
            "byte, so it counts what it does not write, or goes on after the end of its answers (ignore_eos)"
        )
    for cached, whole in ((each.cached_tokens, each.prompt_tokens) for each in records):
        if cached is not None and whole is not None and cached > whole:
            yield f"the server finds {cached:,} tokens of a prompt of {whole:,} in its cache"
            break


def unstreamed(records: Sequence[RequestRecord]) -> Iterator[str]:
    """Why an arm's completed answers are no streams: most of them came in one chunk. The first step of an engine
    writes one token, so an answer of several has two chunks or more.
    """
    long = [each for each in records if (each.completion_tokens or 0) - hidden([each]) > 1 + TOKENS_BESIDE_TEXT]
    whole = sum(len(each.chunks) == 1 for each in long)
    if whole > len(long) / 2:
        yield (
            f"{whole} of {len(long)} answers came whole, in one chunk: something between server and client buffers the "
            "stream (a proxy?), or the server does not stream, so that nothing tells how it wrote them"
        )


def hidden(records: Iterable[RequestRecord]) -> int:
    """Tokens of reasoning that the server counts and does not show."""
    return sum(
        min(each.reasoning_tokens or 0, each.completion_tokens or 0)
        for each in records
        if not any(chunk.reasoning_chars for chunk in each.chunks)
    )


def differ(condition: str, one: Any, other: Any) -> bool:
    """Whether a condition was another one. `condition`: its name, or a path that ends with it."""
    if condition.endswith(LENGTHS):
        with suppress(TypeError, ValueError):
            return unlike(float(one), float(other))
    return bool(one != other)


def unlike(one: float, other: float) -> bool:
    """Whether two mean lengths differ by more than ALIKE."""
    return abs(one - other) > ALIKE * max(one, other)


def too_busy(seconds: Sequence[float], took_s: float, at_a_time: int) -> str:
    """Why requests of these lengths do not fit into the time that a file says they took; empty if they do."""
    if math.fsum(seconds) <= SLACK * at_a_time * took_s + 0.1:
        return ""
    return (
        f"{len(seconds)} requests of {math.fsum(seconds):.4g} s together do not fit into {took_s:.4g} s at "
        f"{at_a_time} at a time"
    )


def impossible_speedup(ratio: float, low: float | None, *, most: float | None) -> str:
    """Why a speed-up cannot be; empty if it can. `most`: what speculation alone allows; None if more may differ."""
    surely = ratio if low is None else low
    if most is not None and surely > most * 1.02:
        return f"a speed-up of {ratio:,.4g}× is more than speculation can give: a step yields {most:g} tokens at most"
    if surely > MOST_SPEEDUP or ratio < 1.0 / MOST_SPEEDUP:
        return f"a speed-up of {ratio:,.4g}× is no server's: perhaps times in another unit, or a wrong count of tokens"
    return ""


MOST_BY_SPECULATION = MOST_DRAFTED + 1.0
"""Most tokens of a step, if k is not known."""


def other_work(*, compared: int, from_start: int) -> str:
    """Why two arms that must write the same text do not do the same work (`from_start`: pairs that part at once)."""
    if from_start <= SOME * compared or (from_start < FEW_PAIRS and from_start < compared):
        return ""
    return f"the answers differ from the first token on in {from_start} of {compared} pairs"


def other_counts(base: int, other: int, *, hidden: int = 0, answers: int) -> str:
    """Why two arms do not count alike; empty if they do. `base` and `other`: what each counts in `answers` answers that
    are the same in both, character for character. One of them may count what needs no text. `hidden`: most tokens of an
    arm that are reasoning it does not show; two arms may think for so long that one has half more of it.
    """
    if abs(base - other) <= AGREE * max(base, other) + TOKENS_BESIDE_TEXT * answers + hidden / 2:
        return ""
    return (
        f"the arms count {base:,} and {other:,} tokens in {answers:,} answers that are the same text, so no "
        "figure of a token can be compared"
    )


def disordered(field: str, stated: Summary) -> Iterator[str]:
    """Statistics of a file that no set of values has together."""
    known = [(name, value) for name in ORDERED if (value := getattr(stated, name)) is not None]
    for (low, below), (high, above) in pairwise(known):
        if below > above * (1 + ROUNDED):
            yield f"the {low} {field} of {below:g} is above its {high} of {above:g}"
    mean, median, deviation = stated.mean, stated.p50, stated.stddev
    if mean is None:
        return
    if stated.min is not None and mean < stated.min * (1 - ROUNDED):
        yield f"the mean {field} of {mean:g} is below its min of {stated.min:g}"
    if stated.max is not None and mean > stated.max * (1 + ROUNDED):
        yield f"the mean {field} of {mean:g} is above its max of {stated.max:g}"
    if median is not None and deviation is not None and abs(mean - median) > deviation + AGREE * median:
        yield f"the p50 {field} of {median:g} is further from its mean of {mean:g} than its stddev of {deviation:g}"


def unlike_rows(field: str, stated: Summary, values: Sequence[float]) -> Iterator[str]:
    """The first statistic of the summary that is not the rows', and how many more."""
    if not values:
        return
    rows = summarize(values)
    names = [
        name
        for name in ("mean", "p50", *(name for name in ORDERED if name != "p50"))
        if (said := getattr(stated, name)) is not None
        and abs(said - getattr(rows, name)) > AGREE * max(said, getattr(rows, name))
    ]
    if names:
        said, counted = getattr(stated, names[0]), getattr(rows, names[0])
        more = f" ({len(names) - 1} more of its statistics differ)" if names[1:] else ""
        yield f"the summary's {names[0]} {field} is {said:g}, that of the requests {counted:g}{more}"
