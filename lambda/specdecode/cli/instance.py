"""`specdecode instance`: a whole run on the machine that it is typed on, without Kubernetes."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from specdecode.cli.options import Overrides, Price, Reference, of_options
from specdecode.cli.output import EXIT_ENVIRONMENT, EXIT_FAILED, EXIT_USAGE, complain, say, stop_with

if TYPE_CHECKING:
    from specdecode.experiment import ExperimentError
    from specdecode.experiment.benchmark_spec import BenchmarkSpec
    from specdecode.instance.engines import Folders
    from specdecode.instance.run import InstanceRun
    from specdecode.planning import Arm, Plan

STORE = Path("store")


@dataclass(frozen=True, kw_only=True)
class WhereOptions:
    """What the run uses of the machine."""

    PANEL: ClassVar = "Where it runs"

    store: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Models and compiled artifacts, kept for later runs.")
    ] = STORE
    artifacts: Annotated[
        str | None, typer.Option(metavar="S3_URI", help="Take compiled artifacts from here, and put new ones here.")
    ] = None
    tool: Annotated[
        str | None, typer.Option(metavar="PROGRAM", help="docker, podman, or a path. Default: the first on the PATH.")
    ] = None
    venv: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Environment with the engine in it, in place of containers.")
    ] = None
    in_turn: Annotated[
        bool, typer.Option("--in-turn", help="Serve one arm after the other, also where several fit side by side.")
    ] = False
    skip_compile: Annotated[bool, typer.Option("--skip-compile", help="Fail rather than compile anything.")] = False


@dataclass(frozen=True, kw_only=True)
class WhatOptions:
    """Whether it measures, asks or prints."""

    PANEL: ClassVar = "What it does"

    show: Annotated[bool, typer.Option("--print", help="Print the run as a shell script, and start nothing.")] = False
    ask: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="Serve the arms one by one and show each answer. Repeatable."),
    ] = None
    arm: Annotated[list[str] | None, typer.Option(metavar="NAME", help="With --ask: this arm only. Repeatable.")] = None
    max_tokens: Annotated[int, typer.Option(min=1, help="With --ask: longest answer, in tokens.")] = 100
    temperature: Annotated[float, typer.Option(min=0, max=2, help="With --ask: sampling temperature.")] = 0.0
    out: Annotated[Path | None, typer.Option(help="Folder for the results; default: results/<run id>.")] = None
    resume: Annotated[bool, typer.Option(help="Go on with the run in --out. Give the same command again.")] = False
    as_json: Annotated[bool, typer.Option("--json", help="Print report.json.")] = False


def instance(
    reference: Reference, where: WhereOptions, what: WhatOptions, overrides: Overrides = None, price: Price = None
) -> None:
    """Do a whole run on this machine: a trn2 instance, or any machine with the engine. No Kubernetes, no AWS account.

    It checks what must be here, fetches models, compiles what has no artifact, serves the arms, asks and loads them,
    stops them, and writes the report. Command lines, settings, artifacts and records are those of the cluster.
    Ctrl-C ends all that it started, and so does its watchdog if it is killed. What is done is kept.

        specdecode instance qwen3-32b-latency
        specdecode instance qwen3-32b-latency --ask "What is machine learning?" --arm sd
        specdecode instance qwen3-32b-latency --print > run.sh

    Exit codes: 0 done, 1 a step failed or you stopped it, 2 bad input, 3 something is missing on this machine.
    """
    from specdecode.benchmark.place import S3Folder
    from specdecode.cli.runs_view import new_run_id
    from specdecode.cli.written_files import only_writer
    from specdecode.instance.containers import ToolFailed, found_tool
    from specdecode.instance.engines import Folders, render_context, server
    from specdecode.instance.requirements import problems, room_kept
    from specdecode.instance.run import InstanceRun
    from specdecode.instance.running import InUse, RunFailed
    from specdecode.store import NotDeleted

    store = where.store.resolve()
    mark = sha256(str(store).encode()).hexdigest()[:12]
    tool = found_tool(mark=mark, venv=where.venv, program=where.tool)
    if wrong := list(_impossible(where, what)):
        raise stop_with("\n".join(wrong))
    plan = _plan(reference, overrides or [], price=price, store=store, in_turn=where.in_turn, shows=what.show)
    arms = _asked_arms(plan, what)
    run_id = new_run_id(f"instance-{plan.experiment.name}")
    if what.show:
        from specdecode.instance.script import script

        shown = tool or found_tool(mark=mark, venv=None, program="docker")
        assert shown  # noqa: S101 (a program was named)
        say(script(plan, shown, render_context(run_id)), end="")
        if plan.experiment.holds_arms:
            complain("the script holds no arms: hold is ignored")
        return
    at = Folders(store=store, results=(what.out or Path("results") / run_id).resolve())
    most = max((wave.arms for wave in plan.waves), key=len) if not what.ask else arms[:1]
    servers = [server(plan, arm, render_context(run_id), at, place=n) for n, arm in enumerate(most)]
    if tool is None or tool.answers():
        raise _missing(problems(plan, tool, servers, at))
    spec = None
    try:
        artifacts = S3Folder(where.artifacts) if where.artifacts else None
        run = InstanceRun(plan=plan, tool=tool, at=at, ctx=render_context(run_id), say=_progress, artifacts=artifacts)
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup leaves it
                signal.signal(number, signal.default_int_handler)
        with run.alone():
            if found := problems(plan, tool, servers, at):  # once what an earlier run left is ended
                raise _missing(found)
            if what.ask:
                run.prepare(compiles=not where.skip_compile, arms=[arm.variant for arm in arms])
                _answers(run, arms, what)
            else:
                spec = _claim(plan, at, run_id, resume=what.resume)
                with only_writer(at.results):
                    run.ctx = render_context(spec.run_id)
                    run.prepare(compiles=not where.skip_compile)
                    run.measure()
        if spec is not None:
            _report(plan, spec, run, what)
            complain(f"results: {at.results}")
    except ValueError as error:
        raise stop_with(str(error)) from None
    except InUse as error:
        raise stop_with(str(error), EXIT_ENVIRONMENT) from None
    except (RunFailed, ToolFailed, NotDeleted, KeyboardInterrupt, OSError) as error:
        told = str(error) or "stopped"
        again = f"; the same command with --resume --out {quote(str(at.results))} goes on" if spec else ""
        code = EXIT_USAGE if isinstance(error, OSError) and not spec else EXIT_FAILED
        raise stop_with(f"{told}{again}", code) from None
    complain(room_kept(store))


def _impossible(where: WhereOptions, what: WhatOptions) -> Iterator[str]:
    """What no run can do with these options, each in words."""
    given = {"--ask": what.ask, "--artifacts": where.artifacts, "--out": what.out, "--resume": what.resume}
    given |= {"--store": where.store != STORE, "--skip-compile": where.skip_compile, "--json": what.as_json}
    for flag in (flag for flag, value in given.items() if what.show and value):
        yield f"{flag} has no place in the script that --print writes: leave it out"
    if where.venv and where.tool:
        yield "--venv uses no containers: leave out --tool"
    folders = {"--store": where.store.resolve(), "--out": (what.out or Path("results")).resolve()}
    for flag, folder in ({} if what.show else folders).items():
        there = next(each for each in (folder, *folder.parents) if each.exists())
        if not (there.is_dir() and os.access(there, os.W_OK | os.X_OK)):
            yield f"{flag}: {there} is no folder that you may write to"
        if ":" in str(folder) and not where.venv:
            yield f"{flag}: no container can be given {folder}: choose a path without a colon"
    if what.ask and what.out and any(what.out.glob("[!.]*")):
        yield f"--out: {what.out} is not empty: choose a new folder"
    for kept in (where.store / name for name in ("models", "compiled")):
        if os.path.lexists(kept) and not kept.is_dir():
            yield f"--store: {kept} is no folder: move it away"


def _plan(
    reference: str, overrides: Sequence[str], *, price: float | None, store: Path, in_turn: bool, shows: bool
) -> Plan:
    """The plan with what the store has; `shows`: as if it had nothing. Raises ExperimentError."""
    from specdecode.experiment import Capacity, engine_of, load
    from specdecode.experiment.model import CompileOn, ServedExperiment, Sweep
    from specdecode.planning import Inventory, make_plan, needed_prefixes, read_inventory
    from specdecode.planning.waves import one_by_one
    from specdecode.pod.bucket import FolderClient

    capacity = Capacity() if price is None else of_options(Capacity, price_per_node_hour=price)
    experiment = load(reference, settings=overrides, capacity=capacity)
    if not isinstance(experiment, ServedExperiment):
        bench = "`specdecode bench` measures such servers from here"
        raise _not_here("variants", "its arms are servers that already run", bench)
    if experiment.answers:
        reads = f"`specdecode forecast {reference} --answers FOLDER` reads a run's folder here"
        raise _not_here("answers", "no run of a bucket is on this machine", reads)
    if experiment.compile.on is CompileOn.CPU:
        fix = "--set compile.on=accelerator"
        raise _not_here("compile.on", "one machine has no other node to compile on", fix)
    if experiment.sweep is Sweep.ADAPTIVE:
        experiment = experiment.model_copy(update={"sweep": Sweep.GRID})  # nobody is there to ask the advisor
    engine, inventory = engine_of(experiment), Inventory()
    if not shows:
        try:
            prefixes = needed_prefixes(experiment, engine)
            inventory = read_inventory(FolderClient(store), bucket=str(store), prefixes=prefixes)
        except OSError as error:
            raise stop_with(f"--store cannot be read: {error}") from None
    plan = make_plan(experiment, engine, inventory=inventory, capacity=capacity)
    return plan.model_copy(update={"waves": one_by_one(plan.waves)}) if in_turn else plan


def _not_here(field: str, why: str, fix: str) -> ExperimentError:
    from specdecode.experiment.problems import ExperimentError, Problem

    return ExperimentError([Problem(field=field, rule="one-machine", message=why, fix=fix)])


def _missing(found: Sequence[str]) -> typer.Exit:
    """What must be mended on this machine, all of it."""
    return stop_with("\n".join([f"{len(found)} problems:", *found] if found[1:] else found), EXIT_ENVIRONMENT)


def _asked_arms(plan: Plan, what: WhatOptions) -> list[Arm]:
    """The first serving of each arm that is asked. Ends the command for an arm that is not there."""
    arms = {arm.variant: arm for wave in reversed(plan.waves) for arm in wave.arms}
    if wrong := [name for name in what.arm or [] if name not in arms]:
        raise stop_with(f"no arm is called {', '.join(wrong)}; there are {', '.join(sorted(arms))}")
    if what.arm and not what.ask:
        raise stop_with("--arm says who answers --ask; a measurement takes all arms")
    return [arms[variant.name] for variant in plan.experiment.variants if variant.name in (what.arm or arms)]


def _claim(plan: Plan, at: Folders, run_id: str, *, resume: bool) -> BenchmarkSpec:
    """The results folder, taken as `specdecode bench` takes its own; a resumed run has the experiment of its first
    start, but for words and limits. Raises BadResults, ExperimentError.
    """
    from specdecode.analysis.several_runs.alike import paths
    from specdecode.benchmark.results import BadResults, claim_folder, replace_file
    from specdecode.experiment import load_file, to_yaml
    from specdecode.instance.engines import render_context
    from specdecode.manifests import benchmark_spec
    from specdecode.runs.state import PLAN

    if resume and not at.results.is_dir():
        raise BadResults("--resume goes on with the run in --out: give that folder, results/instance-…")
    spec = claim_folder(at.results, benchmark_spec(plan, plan.waves[0], render_context(run_id)), resume=resume)
    kept = at.results / "experiment.yaml"
    if begun := resume and kept.exists():
        earlier, now = (
            each.model_dump(mode="json", exclude={"title", "description", "deadlines", "hold"})
            for each in (load_file(kept, measured=True), plan.experiment)
        )
        if other := "; ".join(paths(earlier, now)):
            raise BadResults(f"{at.results} holds a run of other settings ({other}): choose another --out")
    if not begun:
        replace_file(at.results / PLAN, plan.model_dump_json(indent=1).encode())
        replace_file(kept, to_yaml(plan.experiment).encode())
    return spec


def _answers(run: InstanceRun, arms: Sequence[Arm], what: WhatOptions) -> None:
    """Each arm's answer to each question, as it comes, and how it came; its server counts. Raises RunFailed."""
    from specdecode import names
    from specdecode.benchmark.answer import Answer, AnswerError
    from specdecode.instance.running import RunFailed
    from specdecode.manifests.serve_command import served_model
    from specdecode.pod.hold import streamed, why_none
    from specdecode.pod.program import PodArm
    from specdecode.pod.smoke import asking

    plan = run.plan
    temperature = 0.0 if plan.engine.greedy_only else what.temperature
    if temperature != what.temperature:
        complain(f"{plan.engine.name} always takes the likeliest token: --temperature {what.temperature:g} is ignored")
    sampling = {"max_tokens": what.max_tokens, "temperature": temperature}
    model, endpoint = served_model(plan.experiment), plan.experiment.workload.endpoint
    for arm in arms:
        with run.serving([arm]) as ((server,), keys):
            asked = PodArm(arm.variant, server.url, model, keys[names.api_key_variable(arm.variant)])
            for prompt in what.ask or []:
                say(f"{arm.variant}: {prompt}")
                answer, shown, began = Answer(), 0, time.monotonic()
                try:
                    for answer in streamed(asked, endpoint, asking(prompt, endpoint) | sampling):
                        say("".join(answer.parts[shown:]), end="")
                        shown = len(answer.parts)
                except (AnswerError, OSError) as error:
                    raise RunFailed(f"{arm.variant}: {why_none(error)}") from None
                took, tokens = time.monotonic() - began, answer.completion_tokens or 0
                first = answer.chunks[0][0] if answer.chunks else took
                speed = f", then {(tokens - 1) / (took - first):.1f} tokens/s" if tokens > 1 else ""
                say(f"\n({tokens} tokens in {took:.2f} s: the first after {1000 * first:.0f} ms{speed})\n")


def _report(plan: Plan, spec: BenchmarkSpec, run: InstanceRun, what: WhatOptions) -> None:
    from specdecode.analysis.results.run_context import known_of
    from specdecode.cli.report_recorded import deliver, recorded

    found = recorded(run.at.results, plan.price_per_node_hour)
    known, (artifacts, remade) = known_of(plan, found.servers), run.shown()
    known |= {"artifacts": artifacts, "notes": (*known["notes"], *remade)}
    tokenizer = str(run.at.store / spec.tokenizer) if spec.tokenizer else None
    here = spec.model_copy(update={"tokenizer": tokenizer})
    deliver(
        here, run.at.results, as_json=what.as_json, run=replace(found, context=found.context.model_copy(update=known))
    )


def _progress(text: str) -> None:
    complain(f"{datetime.now(UTC):%H:%M:%S} {text}")
