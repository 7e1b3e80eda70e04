"""`specdecode import`: the report from results of other tools."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from specdecode.cli.options import AsJson, Written
from specdecode.cli.output import complain, say_report, stop_with
from specdecode.untrusted import in_words, quoted

if TYPE_CHECKING:
    from specdecode.analysis.other_tools.imported import ImportedArm
    from specdecode.experiment.variants import Variant

OPTIONS = ("draft", "k", "most_tokens_per_step", "quantization")
COPIES = (("label",), ("compare_to",))
"""Fields of an arm that hold a name, too: what is wrong with it is told once."""
UNKNOWN_SIZE_GIB = 1.0


def import_results(
    arms: Annotated[
        list[str], typer.Argument(metavar="NAME=PATH...", help="Each arm's result file or folder, the baseline first.")
    ],
    about: Annotated[
        list[str] | None,
        typer.Option(
            "--about",
            metavar="NAME:KEY=VALUE",
            help="What an arm is: sd:draft=Qwen/Qwen3-0.6B, sd:k=7, sd:quantization=fp8, "
            "sd:most_tokens_per_step=k (what its engine yields in a step: k with NxD Inference, k+1 with others).",
        ),
    ] = None,
    title: Annotated[str, typer.Option(help="Title of the report.")] = "Imported results",
    out: Written = None,
    as_json: AsJson = False,
) -> None:
    """Make the same report from results of another tool, corrected, and explain that tool's own figures.

    It reads LLMPerf (token_benchmark_ray.py: *_summary.json), `vllm bench serve --save-result --save-detailed`, a
    combination's folder of `vllm bench sweep serve`, AIPerf (its artifact folder) and GuideLLM (its JSON).

    Exit codes: 0 compared, 2 the files are of no such tool, or lack something that is needed.
    """
    from pydantic import ValidationError

    from specdecode.analysis.other_tools.imported import ImportProblem
    from specdecode.analysis.other_tools.imported_report import compare_imported
    from specdecode.analysis.other_tools.llmperf import read_arm
    from specdecode.analysis.other_tools.newer_tools import read_other
    from specdecode.analysis.report import all_of, write_report
    from specdecode.cli.written_files import naming
    from specdecode.experiment.base import LONGEST_TITLE

    problems: list[str] = []
    described = _described(about or [], problems)
    if not 1 <= len(title) <= LONGEST_TITLE:
        problems.append(f"--title: 1 to {LONGEST_TITLE} characters are needed")
    found: list[tuple[ImportedArm, Variant]] = []
    names: list[str] = []
    read: dict[Path, str] = {}
    for number, given in enumerate(arms):
        name, equals, path = given.partition("=")
        if not equals or not name or not path:
            problems.append(f"{quoted(given)}: write NAME=PATH, for example base=results/base")
            continue
        if name in names:
            problems.append(f"two arms are called {name!r}: write base=PATH sd=PATH")
        names.append(name)
        if (first := read.setdefault(Path(path).resolve(), name)) != name:
            problems.append(f"{path}: {first} and {name} are the same file: give each arm its own")
        variant = None
        try:
            variant = _variant(name, described.pop(name, {}), arms[0].partition("=")[0] if number else None)
        except ImportProblem as error:
            problems.append(str(error))
        except ValidationError as error:
            problems += [
                f"{_place(name, each)}: {in_words(each)}, not {quoted(each['input'])}"
                for each in error.errors()
                if each["loc"] not in COPIES
            ]
        try:
            arm = read_other(Path(path), name=name) or read_arm(Path(path), name=name)
        except ImportProblem as error:
            problems.append(str(error))
        else:
            found += [(arm, variant)] if variant else []
    problems += [f"--about {name}: there is no arm of that name ({', '.join(names)})" for name in described]
    if len(arms) < 2:
        problems.append("two arms are needed, the baseline first: base=results/base sd=results/sd")
    if problems:
        raise stop_with("\n".join(dict.fromkeys(problems)))
    comparison = compare_imported(arms=found, title=title)
    more = all_of(str(out)) if out else ("All of it, and the page: the same command with --out FOLDER",)
    say_report(comparison, "json" if as_json else "terminal", more=more)
    if out is not None:
        with naming(out):
            complain(f"written: {write_report(comparison, out)}")


def _place(name: str, problem: Mapping[str, Any]) -> str:
    """What a problem is of: the arm's name, or a key of --about."""
    if problem["loc"] == ("name",):
        return "NAME of NAME=PATH"
    keys = {"num_speculative_tokens": "k", "id": "draft"}
    key = next((keys.get(str(part), str(part)) for part in reversed(problem["loc"])), "arm")
    return f"--about {name}:{key}"


def _described(about: list[str], problems: list[str]) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for given in about:
        name, colon, rest = given.partition(":")
        key, equals, value = rest.partition("=")
        if not colon or not equals or key not in OPTIONS:
            problems.append(f"--about {quoted(given)}: write NAME:KEY=VALUE with KEY one of {', '.join(OPTIONS)}")
        elif key in found.get(name, {}):
            problems.append(f"--about {name}:{key} is said twice")
        else:
            found.setdefault(name, {})[key] = value
    return found


def _variant(name: str, about: dict[str, str], baseline: str | None) -> Variant:
    from specdecode.analysis.other_tools.imported import ImportProblem
    from specdecode.experiment.variants import Variant

    values: dict[str, Any] = {"name": name, "label": name, "compare_to": baseline}
    if "quantization" in about:
        values["quantization"] = about["quantization"]
    if "k" in about:
        values["speculation"] = {
            "draft": {"id": about.get("draft", "unknown"), "size_gib": UNKNOWN_SIZE_GIB},
            "num_speculative_tokens": about["k"],
            "most_tokens_per_step": about.get("most_tokens_per_step"),
        }
    elif given := [key for key in ("draft", "most_tokens_per_step") if key in about]:
        raise ImportProblem(f"--about {name}:{given[0]}: say {name}:k=NUMBER too")
    return Variant.model_validate(values)
