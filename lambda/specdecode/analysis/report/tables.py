"""Tables by kind of work and turn by turn, of arms by themselves, of devices and formulas."""

from specdecode.analysis.report.blocks import SPEEDUP, Cell, Column, Listing, ReportTable
from specdecode.analysis.results.comparison import Comparison
from specdecode.analysis.results.numbers import NONE, compact, times
from specdecode.analysis.results.pairs import CategoryAtLevel, PromptGain, Work
from specdecode.analysis.texts.wording import SAYS
from specdecode.experiment.model import ImportedExperiment
from specdecode.measures.arm_case import ArmCase

BY_WORK = (
    Column("kind of work", words=True),
    SPEEDUP,
    Column("verdict", "What the interval of the speed-up says"),
    Column("acceptance length", "Tokens of a step that had drafts: 1 + accepted tokens / drafts"),
    Column("accepted by position (%)", "Of the drafts whose earlier tokens were accepted: the share of this one"),
    Column("outputs equal", "Pairs of answers to the same prompt, equal character for character"),
    Column("prompts", "Different prompts that both arms completed"),
)


def work_sentence(found: Work) -> str:
    """`sd pays on code, math (2 of 5 kinds of work); costs on chat (1).`, and which kinds have only one prompt."""
    parts: list[str] = []
    for verdict, words in SAYS.items():
        cases = [each.case for each in found.categories if each.levels[0].verdict is verdict]
        if cases:
            of = f" of {len(found.categories)} kinds of work" if not parts else ""
            parts.append(f"{words} on {', '.join(cases)} ({len(cases)}{of})")
    alone = [each.case for each in found.categories if each.prompts == 1 and each.levels[0].speedup]
    noise = f" Measured with one prompt only: {', '.join(alone)}. That interval covers timing noise, not other prompts."
    return f"{found.variant} {'; '.join(parts)}.{noise if alone else ''}"


def work_table(found: Work) -> ReportTable:
    """A row for each category, at the first load."""
    rows = []
    for category in found.categories:
        at = category.levels[0]
        positions = " ".join(f"{share:.0%}".rstrip("%") for share in at.accepted_per_position)
        row = (
            Cell(category.case),
            Cell(compact(at.speedup) if at.speedup else NONE, at.verdict),
            Cell(at.verdict.value, at.verdict),
            Cell(_length(at.acceptance_length)),
            Cell(positions or NONE),
            Cell(f"{at.identical} of {at.compared}" if at.compared else NONE),
            Cell(str(category.prompts)),
        )
        rows.append(row)
    return ReportTable(BY_WORK, rows, f"{found.variant} by kind of work, at the first load")


def work_by_load(found: Work) -> ReportTable:
    """A row for each category, a column for each load: speed-up, interval and acceptance length. Empty for one load."""
    levels = max((each.levels for each in found.categories), key=len)
    rows = [
        (Cell(each.case), *(_at({str(at.level): at for at in each.levels}.get(str(at.level))) for at in levels))
        for each in (found.categories if len(levels) > 1 else ())
    ]
    return ReportTable((BY_WORK[0], *(Column(str(at.level)) for at in levels)), rows, "By load")


def _at(at: CategoryAtLevel | None) -> Cell:
    what = "speed-up (95% CI over prompts), acceptance length"
    if at is None:
        return Cell(NONE, title=f"not measured at this load: {what}")
    accepted = f", {_length(at.acceptance_length)}" if at.acceptance_length is not None else ""
    return Cell((compact(at.speedup) if at.speedup else NONE) + accepted, at.verdict, f"{at.verdict.value}: {what}")


def _length(value: float | None) -> str:
    return NONE if value is None else f"{value:.2f}"


def extremes(found: Work) -> Listing:
    """Prompts of each category that gained most and least, each with the begin of its text. They were chosen after the
    measurement.
    """
    return Listing(
        [
            (f"{category.case}, gained {which}", _prompt(prompt))
            for category in found.categories
            for which, prompts in (("most", category.most), ("least", category.least))
            for prompt in prompts
        ],
        "Prompts that gained most and least: chosen after the measurement, so partly by chance",
    )


def _prompt(found: PromptGain) -> str:
    length = found.acceptance_length
    accepted = "" if length is None else f", acceptance length {length:.2f}"
    text = f"“{found.text[:LONGEST_PROMPT]}”" if found.text else "the set of prompts was not available"
    more = f" … ({found.characters:,} characters)" if found.text and found.characters > LONGEST_PROMPT else ""
    return f"{found.id}, {times(found.speedup)}{accepted}: {text}{more}"


LONGEST_PROMPT = 160
"""Characters of a prompt that are shown; report.json has more."""
TURNS = (
    Column("Conversations", words=True),
    Column("Arm", words=True),
    Column("Turn", "Which question of its conversation, from 1"),
    Column("TTFT p50", "Milliseconds to the first token: half of the requests of this turn had it by then"),
    Column("TTFT p90", "Milliseconds to the first token: nine in ten requests of this turn had it by then"),
    Column("Prompt tokens", "Tokens of the whole request, history included, as the server counts them; mean"),
    Column("From prefix cache", "Of the prompt tokens, those that the server had in its prefix cache; mean"),
    Column("Requests", "Completed ones of this turn"),
)


def turn_table(comparison: Comparison) -> ReportTable:
    """A row for each case, turn and arm. Empty if there are no conversations."""
    rows = []
    for case in comparison.experiment.workload.cases:
        own = [(each.turn, arm.variant, each) for arm in comparison.arms if arm.case == case.name for each in arm.turns]
        for turn, arm, each in sorted(own, key=lambda item: item[0]):
            texts = (
                *(case.name, arm, str(turn)),
                *(NONE if at is None else f"{at * 1000:.1f} ms" for at in (each.ttft.p50, each.ttft.p90)),
                *(NONE if count is None else f"{count:,.0f}" for count in (each.prompt_tokens, each.cached_tokens)),
                str(each.ttft.n),
            )
            rows.append([Cell(text) for text in texts])
    return ReportTable(TURNS, rows)


def about_turns(comparison: Comparison) -> str:
    """Note on whose answers the conversations contain, and which servers cache prompt prefixes."""
    caching = comparison.context.prefix_caching
    known = "; ".join(f"{arm} {'on' if on else 'off'}" for arm, on in caching.items())
    return (
        "Each turn contains the turns before it. Their answers are of the arm that was loaded first, so every arm got "
        f"the same text. Prefix caching, as the servers report it: {known or 'not reported'}."
    )


FIGURES = (
    ("TTFT ms", "Time to first token, median", "ttft", ("p50", 1000, 2)),
    ("p99", "Time to first token, 99th percentile", "ttft", ("p99", 1000, 2)),
    ("TPOT ms", "Time per output token, median", "time_per_output_token", ("p50", 1000, 3)),
    ("p99", "Time per output token, 99th percentile", "time_per_output_token", ("p99", 1000, 3)),
    ("E2E s", "End-to-end latency, median", "end_to_end_latency", ("p50", 1, 3)),
    ("request tok/s", "Output tokens per second of a request, median", "request_output_throughput", ("p50", 1, 1)),
    ("server tok/s", "Output tokens per second of all requests together", "output_throughput", ("", 1, 1)),
    ("tok/step", "Tokens per engine step, median", "tokens_per_step", ("p50", 1, 2)),
    ("accepted", "Share of the drafted tokens that were accepted", "acceptance_rate", ("", 1, 3)),
    ("output tok", "Output tokens of a request, median", "output_tokens", ("p50", 1, 0)),
)
"""Heading and meaning of an arm's own figures; metric; statistic (empty: of all requests), scale, decimals."""


def _figure(arm: ArmCase, tag: str, how: tuple[str, int, int]) -> str:
    statistic, scale, decimals = how
    value = getattr(arm.metrics.get(tag), statistic, None) if statistic else arm.totals.get(tag)
    return NONE if value is None else f"{value * scale:.{decimals}f}"


def figures_table(comparison: Comparison) -> ReportTable:
    """Each arm's own figures: a row for each case, arm and load."""
    cases = [case.name for case in comparison.experiment.workload.cases]
    levels = comparison.experiment.workload.levels
    at = [(str(levels[0]), comparison.arms), *((str(load.level), load.arms) for load in comparison.loads)]
    rows = [
        [
            *map(Cell, (arm.case, arm.variant, where) if len(at) > 1 else (arm.case, arm.variant)),
            Cell(f"{arm.completed}/{arm.requests}"),
            *(Cell(_figure(arm, tag, how)) for _, _, tag, how in FIGURES),
        ]
        for where, arms in at
        for arm in sorted(arms, key=lambda arm: cases.index(arm.case))
    ]
    columns = [Column(name, words=True) for name in ("case", "arm", "load") if name != "load" or len(at) > 1]
    columns.append(Column("ok/sent", "Requests completed, of those sent"))
    return ReportTable([*columns, *(Column(name, title) for name, title, _, _ in FIGURES)], rows)


def formulas(comparison: Comparison, cost: str) -> Listing:
    """How each figure is computed; `cost`: dollars per million output tokens."""
    known = [(f"{info.label} [{info.unit}]", info.formula) for info in comparison.metrics]
    methods = dict.fromkeys(each.method for pair in comparison.pairs for case in pair.cases for each in case.speedups)
    imported = isinstance(comparison.experiment, ImportedExperiment)
    speedup = (
        f"arm / baseline, so that above 1 is better; {' or '.join(methods)}"
        if imported
        else "exp(mean over prompts of ln(better / worse direction as stated)); rounds of one prompt averaged first; "
        "95% interval by Student's t at a nominal 96% on the log scale"
    )
    own = [("Speed-up [ratio]", speedup), *([] if imported else [("Cost per million output tokens [$]", cost)])]
    return Listing([*known, *own], "How each figure is computed")
