"""What the report says, in the order in which a reader asks. Page, Markdown and terminal walk this list."""

from collections.abc import Iterator

from specdecode.analysis.loads.k_by_load import in_words
from specdecode.analysis.report import pair_tables, tables
from specdecode.analysis.report.blocks import (
    Block,
    Cell,
    Code,
    Column,
    Drawing,
    Listing,
    More,
    ReportTable,
    Section,
    Text,
    kept,
    listed,
)
from specdecode.analysis.report.forecasts import TITLE, forecast_of, forecast_table
from specdecode.analysis.report.over_load import curve_table
from specdecode.analysis.report.page import ReportView
from specdecode.analysis.report.tiles import cost_formula, cost_sentence
from specdecode.analysis.results.numbers import dollars, duration, percent, signed
from specdecode.analysis.results.pairs import Verdict
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
    asked = (_prompts, _load, _objective, _tokens, _cost, _same, _sure, _published, _serve, _metrics, _turns)
    found = [*(section(view) for section in asked), *_requests(view), _exact(view)]
    return [each for each in found if each and (each.says or each.blocks)]


def _prompts(view: ReportView) -> Section:
    comparison = view.comparison
    if not view.pairs:
        return Section("prompts", "Each arm by itself", "", kept(tables.figures_table(comparison)))
    said = comparison.recommendation or ""
    blocks: list[Block] = [Text(said.removeprefix(first_sentence(said)).strip())]
    for pair in view.pairs:
        told = [
            ("", f"{case.case} would be settled by {case.settle}.")
            for case in pair.cases
            if case.verdict is Verdict.CANNOT_TELL and case.settle
        ]
        remarks: dict[str, list[str]] = {}
        for case in pair.cases:
            for note in case.notes:
                remarks.setdefault(note, []).append(case.case)
        told += [(", ".join(cases), note) for note, cases in remarks.items()]
        blocks += [pair_tables.case_table(comparison, pair), More(f"Remarks on {pair.variant}", [Listing(told)])]
    blocks.append(Drawing("swept", view.pictures.lengths))
    for work in view.work:
        parts = kept(tables.work_table(work), tables.work_by_load(work), tables.extremes(work))
        blocks += [Text(tables.work_sentence(work)), More(f"{work.variant} by kind of work", parts)]
    says = comparison.answer.removeprefix(over_load(comparison)).strip()
    return Section("prompts", "For which prompts?", says, kept(*blocks))


def _load(view: ReportView) -> Section | None:
    experiment = view.comparison.experiment
    levels = experiment.workload.levels
    if len(levels) == 1:
        how = "" if isinstance(experiment, ImportedExperiment) else " (workload.concurrency takes several)"
        only = f"Only one load was measured, {levels[0]}: whether it pays at another is not known{how}."
        known = view.pairs and experiment.workload.knows("concurrency")
        return Section("load", "At which load?", only) if known else None
    blocks: list[Block] = []
    for number, curve in enumerate(view.curves):
        blocks += [curve_table(view.comparison, curve), Drawing("curve", (number, curve))]
    for found in view.comparison.schedule:
        blocks += [Text(in_words(found)), Code(found.paste)]
    return Section("load", "At which load?", over_load(view.comparison), kept(*blocks))


def _objective(view: ReportView) -> Section | None:
    found = objective(view.comparison)
    return Section("objective", "Within your objective?", f"SLO: {found}.") if found else None


def _tokens(view: ReportView) -> Section:
    comparison = view.comparison
    told, measured = forecast_of(comparison)
    facts = [
        (
            f"Draft {each.draft}, {each.group} prompts",
            f"a = {each.acceptance:.3f}, c = {each.draft_cost:.3f}, v = {each.overhead:.3f}",
        )
        for each in comparison.theory
    ]
    blocks = kept(
        pair_tables.k_table(comparison),
        *map(pair_tables.chain_table, comparison.chains),
        *([pair_tables.arms_table(comparison)] if view.is_sweep else []),
        Drawing("swept", view.pictures.settings),
        More("What the advisor decided", [listed(*(step.reason for step in comparison.context.sweep))]),
        More(TITLE, [Drawing("forecast", told), forecast_table(told, measured)]),
        More(BELIEVES, [Drawing("theory", comparison.theory), Listing(facts)]),
    )
    says = f"{NEXT}: {comparison.advice}" if comparison.advice else ""
    return Section("tokens", "How many tokens, and which draft?", says, blocks)


def _cost(view: ReportView) -> Section | None:
    comparison, pair = view.comparison, view.best
    if not comparison.cost and not any(arm.cost_per_million is not None for arm in comparison.arms):
        return None
    says = ""
    if pair and (found := comparison.costs(pair)):
        before, after = found
        says = (
            f"A million output tokens cost {dollars(after)} with {pair.variant}, {signed(after / before - 1)} against "
            f"{dollars(before)} with {pair.baseline}. "
        )
    how = (
        f"Dollars per token: {cost_formula(comparison)}. It holds for {comparison.experiment.workload.levels[0]} on "
        "each arm and full use of the hours paid: an arm that stands idle half of the time costs twice as much per "
        "token."
    )
    return Section("cost", "What does it cost?", f"{says}{cost_sentence(comparison)}", [Text(how)])


def _same(view: ReportView) -> Section:
    equal = [case.equality for pair in view.pairs for case in pair.cases]
    compared, same = sum(each.compared for each in equal), sum(each.identical for each in equal)
    promise = "Answers are sampled, so they differ by design and equality says nothing."
    if any(each.expected for each in equal):
        promise = "Decoding is greedy, so speculative decoding promises the very same tokens."
    many = "All" if same == compared else f"{same} of"
    says = f"{many} {compared} pairs of answers to one prompt are equal, character for character. {promise}"
    blocks: list[Block] = [pair_tables.accuracy_table(view.comparison)]
    for pair in view.pairs:
        parted = [
            (case.case, f"request {d.index}, after {d.at} equal characters: “…{d.before}” goes on "
             f"“{d.base or '(ends)'}” ({pair.baseline}), “{d.other or '(ends)'}” ({pair.variant})")
            for case in pair.cases
            if (d := case.equality.first)
        ]  # fmt: skip
        blocks.append(More(f"Where {pair.variant} parts from {pair.baseline}", [Listing(parted)]))
    return Section("same", "Is the text the same?", says if compared else "", kept(*blocks))


def _sure(view: ReportView) -> Section:
    comparison, facts = view.comparison, setting(view.comparison)
    failed = [
        (
            ", ".join(part for part in (each.stage, each.variant, each.case) if part),
            f"{each.message} {each.diagnostics}".strip(),
        )
        for each in comparison.context.failures
    ]
    arms = [*comparison.arms, *(arm for load in comparison.loads for arm in load.arms)]
    requests, broken = sum(arm.requests for arm in arms), sum(arm.failed for arm in arms)
    sent = "No request was measured"
    if requests:
        lost = f"{broken} failed ({percent(broken / requests)})" if broken else "none failed"
        sent = f"Of {requests:,} requests {lost}"
    devices = [
        (f"{each.variant}, round {each.round}", f"{each.group and f'group {each.group}: '}{', '.join(each.devices)}")
        for each in comparison.context.device_groups
    ]
    blocks = kept(
        Listing(failed, "What failed"),
        listed(*comparison.notes, title="Before you rely on this"),
        Listing([fact for fact in facts.items() if fact[0] not in LATER], "What was measured"),
        More("Which devices each arm held", [Listing(devices)]),
    )
    return Section("sure", "How sure is this?", f"{sent}; {facts['How sure']}", blocks)


def _published(view: ReportView) -> Section | None:
    if not (found := beside(view.comparison)):
        return None
    rows = [
        [Cell(text) for text in (each.what, str(each.judged), each.theirs, each.ours, each.why, each.by)]
        for each in found
    ]
    told = More("Their conditions and sources", [listed(*sources_of(view.comparison.experiment))])
    return Section("published", "Against the published figures", in_short(found), [ReportTable(PUBLISHED, rows), told])


def _serve(view: ReportView) -> Section | None:
    if not (found := view.winner):
        return None
    says = (
        f"{found.variant}: specdecode winner {view.comparison.run_id} prints its Deployment and Service. By "
        "hand, its commands run in the engine's image, with credentials that may read the bucket; the last one is "
        "the server's, as this run's pod had it."
    )
    where = f"Artifact: {found.where}" if found.where else ""
    by_hand = More(f"Serve {found.variant} by hand", kept(Text(where), Code(found.recipe)))
    return Section("serve", "Serve it", says, [by_hand])


def _metrics(view: ReportView) -> Section | None:
    if not (found := [table for pair in view.pairs for table in pair_tables.metric_tables(view.comparison, pair)]):
        return None
    says = "Medians of the completed requests, and the speed-up with its 95% interval."
    return Section("metrics", "Every metric", says, [*found, Drawing("percentiles", view.pairs)], folded=True)


def _turns(view: ReportView) -> Section | None:
    found, said = tables.turn_table(view.comparison), tables.about_turns(view.comparison)
    return Section("turns", "Conversations turn by turn", said, [found], folded=True) if found.rows else None


def _requests(view: ReportView) -> Iterator[Section]:
    """Charts of single requests, which only the page has."""
    if found := view.pictures.article:
        says = f"By their numbers in AWS's article; figure 1, the config trade-offs, is above: {BELIEVES}."
        yield Section("article", "The article's figures 1, 3, 4 and 5", says, [Drawing("swept", found)], folded=True)
    if view.distributions:
        yield Section("distributions", "Distributions, request by request", "", [Drawing("distributions")], folded=True)
    if view.comparison.timeline:
        yield Section("timeline", "The run as it went", "", [Drawing("timeline")], folded=True)


def _exact(view: ReportView) -> Section:
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
    facts += [(f"Artifact of {name}", stored) for name, stored in context.artifacts.items()]
    arms = [
        (each.name, f"{view.describe(each.name)}; compared with {each.compare_to or 'nothing'}")
        for each in comparison.experiment.variants
    ]
    formulas = tables.formulas(comparison, cost_formula(comparison))
    blocks = kept(Listing(facts), Listing(arms, "Arms"), Drawing("experiment"), formulas)
    return Section("exact", "Exactly what was run", "", blocks, folded=True)
