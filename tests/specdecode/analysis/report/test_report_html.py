"""The page's parts: vendored files as published, every section for what it is, and large sweeps in bounded time."""

from __future__ import annotations

import hashlib
import html
import random
import re
import resource
import time
from itertools import pairwise
from pathlib import Path

import pytest
from specdecode.analysis import Comparison
from specdecode.analysis.report import render_html, render_markdown, render_terminal
from specdecode.analysis.report.tiles import Axis
from specdecode.analysis.results.pairs import Estimate
from specdecode.analysis.results.run_context import Accuracy, DeviceGroup, Failure, Served
from specdecode.experiment.model import Sweep
from specdecode.experiment.workload import PromptKind, TestCase

from tests.specdecode.analysis.simulate import COUNTERS, context, experiment, request, run, simulated

VENDOR = Path(__file__).resolve().parents[4] / "assets" / "report" / "vendor"


def page(**around: object) -> str:
    tested = experiment(rounds=2)
    return render_html(simulated(tested=tested, around=context(**around)))


def test_vendored_files_are_the_published_ones() -> None:
    listed = dict(re.findall(r"^\| (\S+\.js) \| .* \| ([0-9a-f]{64}) \|$", (VENDOR / "README.md").read_text(), re.M))
    assert set(listed) == {path.name for path in VENDOR.glob("*.js")}
    for name, digest in listed.items():
        assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == digest, name


def test_the_page_names_no_resource_outside_itself() -> None:
    markup = re.sub(r"<script.*?</script>", "", page(), flags=re.S)
    assert re.findall(r"""(?:src|href)=["']?(?!#|data:|raw/)[^"'> ]+""", markup) == []
    assert "@import" not in markup
    assert "url(" not in markup


def test_the_raw_files_are_linked() -> None:
    """Relative, so that the links hold in the bucket and in a folder alike."""
    linked = set(re.findall(r'<a href="(raw/[^"]+)">', page(raw_prefix="s3://bucket/runs/run-1/")))
    assert linked == {f"raw/{arm}/{case}.jsonl" for arm in ("base", "sd") for case in ("repeat", "sonnet")}
    assert "s3://bucket/runs/run-1/" in page(raw_prefix="s3://bucket/runs/run-1/")


def test_sections_show_what_the_context_holds() -> None:
    text = page(
        failures=(
            Failure(stage="Compile", variant="sd", message="neuronx-cc exit 70", diagnostics="diagnostics/sd.log"),
        ),
        accuracy=(Accuracy(variant="sd", task="gsm8k", metric="exact_match", value=0.72, stderr=0.064, samples=50),),
        device_groups=(DeviceGroup(variant="sd", devices=("neuron8", "neuron15"), group="8"),),
        counters=tuple(COUNTERS.model_copy(update={"round": number}) for number in (0, 1)),
        versions={"engine image": "sdk2.26.1"},
    )
    failed = ("neuronx-cc exit 70", "diagnostics/sd.log")
    for part in (*failed, "0.720", "0.064", "neuron15", "Acceptance by position", "sdk2.26.1"):
        assert part in text, part


def test_a_run_without_price_or_comparison_still_renders() -> None:
    tested = experiment()
    only_base = [record for record in run(tested) if record.variant == "base"]
    text = render_html(simulated(only_base, around=context(price_per_node_hour=None)))
    assert "Nothing could be compared" in text
    assert "sd was not measured" in text and "The arm sd was not measured: this report has no figure of it." in text
    empty = render_html(simulated([]))
    assert "Nothing could be compared" in empty
    assert "No request was measured" in empty and "Of 0" not in empty and "raw records of this run" not in empty


def estimate(ratio: float) -> Estimate:
    return Estimate(metric="m", ratio=ratio, low=ratio * 0.9, high=ratio * 1.1, n=8, method="t")


@pytest.mark.parametrize("ratios", [(1.0,), (0.2, 30.0), (1.01, 1.02), (3.0, 9.0)])
def test_the_axis_holds_every_interval_and_its_ticks_keep_apart(ratios: tuple[float, ...]) -> None:
    axis = Axis([estimate(ratio) for ratio in ratios])
    bars = [axis.bar(estimate(ratio)) for ratio in ratios]
    assert all(0 <= bar.low < bar.at < bar.high <= 100 for bar in bars if bar.low is not None and bar.high is not None)
    places = [at for at, *_ in axis.ticks]
    assert "1×" in [label for _, label, _ in axis.ticks]
    assert all(b - a >= 12 for a, b in pairwise(places))


def sweep(variants: int, cases: int) -> Comparison:
    """A full sweep's comparison, whose records are short: its size is that of the aggregates."""
    tested = experiment(
        ks=tuple(range(1, 33)),
        requests=4,
        cases=tuple(
            TestCase(name=f"case-{n}", label=f"case {n}", kind=PromptKind.LINE, text="a", structured=n % 2 == 0)
            for n in range(cases)
        ),
    )
    base, *arms = tested.variants
    many = [arms[n % len(arms)].model_copy(update={"name": f"sd-{n}"}) for n in range(variants - 1)]
    tested = tested.model_copy(update={"variants": (base, *many)})
    rng = random.Random(1)
    records = (
        request(variant=v.name, case=c.name, index=i, rng=rng, tokens=12, k=v.k or 0, acceptance=0.7)
        for v in tested.variants
        for c in tested.workload.cases
        for i in range(4)
    )
    return simulated(records, tested=tested)


def test_a_sweep_shows_the_matrix_and_the_best_arm_in_full() -> None:
    comparison = sweep(12, 2)
    text = render_html(comparison)
    assert "All arms at a glance" in text
    assert text.count('class="row ') == 2 + 1, "one pair in full, and the axis"
    assert all(f">{variant.name}<" in text for variant in comparison.experiment.variants[1:])


def test_arms_of_one_question_are_told_apart_by_name() -> None:
    tested = experiment(ks=(3, 7))
    text = render_html(simulated(tested=tested))
    assert all(f"<caption>sd-k{k} against base</caption>" in text for k in (3, 7))
    assert "All arms at a glance" not in text


def test_an_adaptive_sweep_shows_its_best_arm_and_then_all_of_them() -> None:
    tested = experiment(ks=(3, 7)).model_copy(update={"sweep": Sweep.ADAPTIVE})
    text = render_html(simulated(tested=tested))
    assert text.count(" against base</caption>") == 1
    assert "All arms at a glance" in text


def test_a_hundred_variants_by_ten_cases_render_in_bounded_time_and_memory() -> None:
    comparison = sweep(100, 10)
    assert len(comparison.arms) == 1000
    began, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    text = render_html(comparison)
    assert time.process_time() - began < 200
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000, "KiB"
    assert len(text) < 3_000_000


def test_one_prompt_repeated_is_said_beside_the_verdict_and_remarks_are_said_once() -> None:
    records = [record.model_copy(update={"prompt_sha256": "0" * 64}) for record in run(experiment())]
    text = render_html(simulated(records))
    assert text.count("8 requests of one prompt") == 2
    assert text.count("the interval covers timing noise") == 1
    assert "<dt>repeat, sonnet</dt>" in text


def test_the_contents_lead_to_every_section_of_the_page() -> None:
    """Also in a sweep, in a run of servers without a price, and where nothing could be compared."""
    tested = experiment()
    only_base = [record for record in run(tested) if record.variant == "base"]
    pages = [
        page(served=(Served(variant="sd", recipe="vllm serve x", artifact="s3://b/compiled/1/"),)),
        render_html(sweep(12, 2)),
        render_html(simulated(only_base, around=context(price_per_node_hour=None))),
    ]
    for text in pages:
        toc = re.findall(r'<li><a href="#([^"]+)">', text[text.index('class="toc"') : text.index("</nav>")])
        sections = re.findall(r'<section[^>]* aria-labelledby="([^"]+)"', text)
        assert sections[0] == "answer-h"
        assert set(toc) <= set(re.findall(r'id="([^"]+)"', text))
        assert [name for name in sections[1:] if not re.search(r"-[2-9]$", name)] == toc


def test_the_winners_command_and_artifact_are_on_the_page_and_the_losers_are_not() -> None:
    served = tuple(
        Served(variant=name, recipe=f"vllm serve {name} --x 'a b'", artifact=f"s3://b/compiled/{name}/")
        for name in ("base", "sd")
    )
    fast = page(served=served)
    assert "vllm serve sd --x &#39;a b&#39;" in fast and "s3://b/compiled/sd/" in fast
    assert "vllm serve base" not in fast
    slow = simulated(acceptance={"repeat": 0.05, "sonnet": 0.05}, around=context(served=served))
    assert "vllm serve base" in render_html(slow) and "vllm serve base" in render_markdown(slow)
    assert "s3://b/compiled/base/" in render_terminal(slow)


def test_every_form_says_on_what_at_which_load_and_how_sure() -> None:
    tested = experiment(rounds=2)
    around = context(node="trn2.48xlarge", versions={"engine": "Neuron vLLM 0.9.1"})
    comparison = simulated(tested=tested, around=around)
    forms = (render_html(comparison), render_markdown(comparison), render_terminal(comparison, width=400))
    for text in forms:
        shown = " ".join(html.unescape(text).replace("\\", "").split())
        for part in (
            "Qwen/Qwen3-32B, tensor parallel 32",
            "draft Qwen/Qwen3-1.7B, k=7, fused-draft",
            "Neuron vLLM 0.9.1",
            "trn2.48xlarge on demand, 8 of 16 devices for each arm",
            "8 requests per prompt type and arm in each of 2 rounds, 4 at a time",
            "about 64 tokens in and 200 out, greedy, arms alternate",
            "each 95% interval is over the prompts of each type, in this one run",
            "fewer than 5 structured and open-ended prompt types",
        ):
            assert part in shown, part
    first, *others = tested.workload.cases
    cases = (first.model_copy(update={"requests": 6}), *others)  # as those of a set: as many as it has prompts
    unlike = tested.model_copy(update={"workload": tested.workload.model_copy(update={"cases": cases})})
    said = render_terminal(comparison.model_copy(update={"experiment": unlike}), width=400)
    assert "6 to 8 requests per prompt type and arm" in said
