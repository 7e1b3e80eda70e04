"""What the report says, in the order in which a reader asks. Page, Markdown and terminal walk this list."""

from collections.abc import Iterator, Sequence

from specdecode.analysis.loads.k_by_load import in_words
from specdecode.analysis.report import pair_tables, tables
from specdecode.analysis.report.blocks import (
    Block,
    Cell,
    Code,
    Column,
    Drawing,
    Inner,
    Listing,
    More,
    ReportTable,
    Section,
    Text,
    listed,
)
from specdecode.analysis.report.forecasts import TITLE, forecast_of, forecast_table
from specdecode.analysis.report.over_load import curve_table
from specdecode.analysis.report.page import ReportView
from specdecode.analysis.report.tiles import cost_formula, cost_sentence, costs
from specdecode.analysis.results.numbers import dollars, duration, percent, signed
from specdecode.analysis.results.pairs import Work
from specdecode.analysis.texts.published import beside, in_short
from specdecode.analysis.texts.published import sources as sources_of
from specdecode.analysis.texts.recommend import over_load
from specdecode.analysis.texts.setting import NEXT, objective, setting
from specdecode.analysis.texts.wording import first_sentence
from specdecode.experiment.model import ImportedExperiment

BELIEVES = "What the advisor believes, over k and draft"
LATER = ("Prompts", "How sure", "SLO")
"""Conditions that stand elsewhere than beside the others."""
PUBLISHED = (
    Column("figure", words=True),
    Column("verdict", words=True),
    Column("published"),
    Column("measured here", "At the first load"),
    Column("why", words=True),
    Column("by", words=True),
)


def sections(view: ReportView) -> list[Section]:
    """The sections that have something to say: eight questions, then what is folded."""
    asked = (
        _prompts,
        _load,
        _objective,
        _tokens,
        _cost,
        _same,
        _sure,
        _published,
        _serve,
        _metrics,
        _turns,
        _requests,
        _exact,
    )
    return [found for each in asked for found in each(view)]


def _prompts(view: ReportView) -> Iterator[Section]:
    comparison = view.comparison
    if not view.pairs:
        if comparison.arms:
            yield Section("prompts", "Each arm by itself", "", [tables.figures_table(comparison)])
        return
    said = comparison.recommendation or ""
    rest = said.removeprefix(first_sentence(said)).strip()
    blocks: list[Block] = [Text(rest)] if rest else []
    for pair in view.pairs:
        blocks.append(pair_tables.case_table(comparison, pair))
        to_settle = [
            f"{case} would be settled by {what}."
            for who, case, what in comparison.open_questions
            if who == pair.variant
        ]
        remarks: dict[str, list[str]] = {}
        for case in pair.cases:
            for note in case.notes:
                remarks.setdefault(note, []).append(case.case)
        told = [*(("", text) for text in to_settle), *((", ".join(cases), note) for note, cases in remarks.items())]
        blocks += [More(f"Remarks on {pair.variant}", [Listing(told)])] if told else []
    if found := view.pictures.lengths:
        blocks.append(Drawing("swept", found))
    for work in view.work:
        blocks += [Text(tables.work_sentence(work)), More(f"{work.variant} by kind of work", _work(work))]
    yield Section(
        "prompts", "For which prompts?", comparison.answer.removeprefix(over_load(comparison)).strip(), blocks
    )


def _work(found: Work) -> Sequence[Inner]:
    by_load = tables.work_by_load(found)
    extremes = tables.extremes(found)
    return [tables.work_table(found), *([by_load] if by_load else []), *([extremes] if extremes.items else [])]


def _load(view: ReportView) -> Iterator[Section]:
    comparison = view.comparison
    levels = comparison.experiment.workload.levels
    imported = isinstance(comparison.experiment, ImportedExperiment)
    if len(levels) == 1:
        only = (
            f"Only one load was measured, {levels[0]}: whether it pays at another is not known"
            f"{'' if imported else ' (workload.concurrency takes several)'}."
        )
        if view.pairs and comparison.experiment.workload.knows("concurrency"):
            yield Section("load", "At which load?", only)
        return
    blocks: list[Block] = []
    for number, curve in enumerate(view.curves):
        blocks += [curve_table(comparison, curve)]
        blocks.append(Drawing("curve", (number, curve)))
    for found in comparison.schedule:
        blocks += [Text(in_words(found)), *([Code(found.paste)] if found.paste else [])]
    yield Section("load", "At which load?", over_load(comparison), blocks)


def _objective(view: ReportView) -> Iterator[Section]:
    if found := objective(view.comparison):
        yield Section("objective", "Within your objective?", f"SLO: {found}.")


def _tokens(view: ReportView) -> Iterator[Section]:
    comparison = view.comparison
    by_k = pair_tables.k_table(comparison)
    blocks: list[Block] = [by_k] if by_k else []
    blocks += [pair_tables.chain_table(chain) for chain in comparison.chains]
    blocks += [pair_tables.arms_table(comparison)] if view.is_sweep else []
    if pictures := view.pictures.settings:
        blocks.append(Drawing("swept", pictures))
    if steps := comparison.context.sweep:
        blocks.append(More("What the advisor decided", [listed(*(step.reason for step in steps))]))
    told, measured = forecast_of(comparison)
    if told:
        blocks.append(More(TITLE, [Drawing("forecast"), forecast_table(told, measured)]))
    if comparison.theory:
        facts = [
            (
                f"Draft {each.draft}, {each.group} prompts",
                f"a = {each.acceptance:.3f}, c = {each.draft_cost:.3f}, v = {each.overhead:.3f}",
            )
            for each in comparison.theory
        ]
        blocks.append(More(BELIEVES, [Drawing("theory"), Listing(facts)]))
    says = f"{NEXT}: {comparison.advice}" if comparison.advice else ""
    if says or blocks:
        yield Section("tokens", "How many tokens, and which draft?", says, blocks)


def _cost(view: ReportView) -> Iterator[Section]:
    comparison, pair = view.comparison, view.best
    found = costs(comparison, pair) if pair else None
    if not comparison.cost and not any(arm.cost_per_million is not None for arm in comparison.arms):
        return
    says = ""
    if pair and found:
        before, after = found
        says = (
            f"A million output tokens cost {dollars(after)} with {pair.variant}, {signed(after / before - 1)} against "
            f"{dollars(before)} with {pair.baseline}. "
        )
    how = (
        f"{cost_formula(comparison)}. It holds for {comparison.experiment.workload.levels[0]} on each arm and full use "
        "of the hours paid: an arm that stands idle half of the time costs twice as much per token."
    )
    yield Section(
        "cost", "What does it cost?", f"{says}{cost_sentence(comparison)}", [Text(f"Dollars per token: {how}")]
    )


def _same(view: ReportView) -> Iterator[Section]:
    comparison = view.comparison
    equal = [case.equality for pair in view.pairs for case in pair.cases]
    compared, same = sum(each.compared for each in equal), sum(each.identical for each in equal)
    accuracy = pair_tables.accuracy_table(comparison)
    if not compared and not accuracy:
        return
    greedy = any(each.expected for each in equal)
    promise = (
        "Decoding is greedy, so speculative decoding promises the very same tokens."
        if greedy
        else "Answers are sampled, so they differ by design and equality says nothing."
    )
    many = "All" if same == compared else f"{same} of"
    says = f"{many} {compared} pairs of answers to one prompt are equal, character for character. {promise}"
    blocks: list[Block] = [accuracy] if accuracy else []
    for pair in view.pairs:
        parted = [
            (case.case, f"request {d.index}, after {d.at} equal characters: “…{d.before}” goes on "
             f"“{d.base or '(ends)'}” ({pair.baseline}), “{d.other or '(ends)'}” ({pair.variant})")
            for case in pair.cases
            if (d := case.equality.first)
        ]  # fmt: skip
        blocks += [More(f"Where {pair.variant} parts from {pair.baseline}", [Listing(parted)])] if parted else []
    yield Section("same", "Is the text the same?", says if compared else "", blocks)


def _sure(view: ReportView) -> Iterator[Section]:
    comparison = view.comparison
    facts = setting(comparison)
    failed = [
        (
            ", ".join(part for part in (each.stage, each.variant, each.case) if part),
            f"{each.message} {each.diagnostics}".strip(),
        )
        for each in comparison.context.failures
    ]
    arms = [*comparison.arms, *(arm for load in comparison.loads for arm in load.arms)]
    requests, broken = sum(arm.requests for arm in arms), sum(arm.failed for arm in arms)
    sent = f"Of {requests:,} requests {f'{broken} failed ({percent(broken / requests)})' if broken else 'none failed'}"
    if not requests:
        sent = "No request was measured"
    drift = pair_tables.drift_table(comparison)
    devices = [
        (f"{each.variant}, round {each.round}", f"{each.group and f'group {each.group}: '}{', '.join(each.devices)}")
        for each in comparison.context.device_groups
    ]
    blocks: list[Block] = [
        *([Listing(failed, "What failed")] if failed else []),
        *([listed(*comparison.notes, title="Before you rely on this")] if comparison.notes else []),
        Listing([fact for fact in facts.items() if fact[0] not in LATER], "What was measured"),
        *([More("The same arm, measured twice", [drift])] if drift else []),
        *([More("Which devices each arm held", [Listing(devices)])] if devices else []),
    ]
    yield Section("sure", "How sure is this?", f"{sent}; {facts['How sure']}", blocks)


def _published(view: ReportView) -> Iterator[Section]:
    if found := beside(view.comparison):
        rows = [
            [Cell(text) for text in (each.what, str(each.judged), each.theirs, each.ours, each.why, each.by)]
            for each in found
        ]
        told = More("Their conditions and sources", [listed(*sources_of(view.comparison.experiment))])
        blocks: list[Block] = [ReportTable(PUBLISHED, rows), told]
        yield Section("published", "Against the published figures", in_short(found), blocks)


def _serve(view: ReportView) -> Iterator[Section]:
    if not (found := view.winner):
        return
    says = (
        f"{found.variant}: specdecode winner {view.comparison.run_id} prints its Deployment and Service. By "
        "hand, its commands run in the engine's image, with credentials that may read the bucket; the last one is "
        "the server's, as this run's pod had it."
    )
    where = [Text(f"Artifact: {found.where}")] if found.where else []
    yield Section("serve", "Serve it", says, [More(f"Serve {found.variant} by hand", [*where, Code(found.recipe)])])


def _metrics(view: ReportView) -> Iterator[Section]:
    found = [table for pair in view.pairs for table in pair_tables.metric_tables(view.comparison, pair)]
    if found:
        says = "Medians of the completed requests, and the speed-up with its 95% interval."
        percentiles = Drawing("percentiles", view.pairs)
        yield Section("metrics", "Every metric", says, [*found, percentiles], folded=True)


def _turns(view: ReportView) -> Iterator[Section]:
    if found := tables.turn_table(view.comparison):
        yield Section("turns", "Conversations turn by turn", tables.about_turns(view.comparison), [found], folded=True)


def _requests(view: ReportView) -> Iterator[Section]:
    """Charts of single requests, which only the page has."""
    if found := view.pictures.article:
        says = f"By their numbers in AWS's article; figure 1, the config trade-offs, is above: {BELIEVES}."
        yield Section("article", "The article's figures 1, 3, 4 and 5", says, [Drawing("swept", found)], folded=True)
    if view.distributions:
        yield Section("distributions", "Distributions, request by request", "", [Drawing("distributions")], folded=True)
    if view.comparison.timeline:
        yield Section("timeline", "The run as it went", "", [Drawing("timeline")], folded=True)


def _exact(view: ReportView) -> Iterator[Section]:
    comparison, context = view.comparison, view.comparison.context
    facts = [fact for fact in setting(comparison).items() if fact[0] == "Prompts"]
    facts += [("Prompt lengths", context.prompt_lengths)] if context.prompt_lengths else []
    if context.started_at.timestamp() > 0:
        ran = duration((context.finished_at - context.started_at).total_seconds())
        if isinstance(comparison.experiment, ImportedExperiment):
            days = dict.fromkeys(f"{at:%Y-%m-%d %H:%M:%S}" for at in (context.started_at, context.finished_at))
            facts.append(("Dates of the files", f"{' to '.join(days)}, as the tools wrote them"))
        else:
            facts.append(("Started", f"{context.started_at:%Y-%m-%d %H:%M:%S} UTC, ended {ran} later"))
    facts += [("Measured by", context.source), *context.versions.items()]
    arms = [
        (each.name, f"{view.describe(each.name)}; compared with {each.compare_to or 'nothing'}")
        for each in comparison.experiment.variants
    ]
    blocks: list[Block] = [
        Listing(facts),
        Listing(arms, "Arms"),
        Drawing("experiment"),
        tables.formulas(comparison, cost_formula(comparison)),
    ]
    yield Section("exact", "Exactly what was run", "", blocks, folded=True)
