"""A run as a shell script: each container and each program that `specdecode instance` would start, with comments."""

import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import specdecode
from specdecode.escape import line
from specdecode.experiment import to_yaml
from specdecode.instance import engines
from specdecode.instance.containers import KEPT_BACK, LABEL, STOP_S, Containers, Environment, Tool
from specdecode.instance.engines import EngineRun, Folders, Program
from specdecode.instance.run import asked
from specdecode.manifests.naming import RenderContext
from specdecode.manifests.pods import word
from specdecode.planning import Plan, Wave

SHELL = Folders(store=Path("/@STORE@"), results=Path("/@RESULTS@"))
"""Folders of a script: variables stand in their place."""
_PATHS = {"/@STORE@": '"$STORE"', "/@RESULTS@": '"$RESULTS"', str(Path(specdecode.__file__).parent): '"$PACKAGE"'}
_KEPT_BACK = f"/^({'|'.join(KEPT_BACK)})[A-Za-z0-9_]*$/"
_OPTIONS = f"""awk 'BEGIN {{ for (name in ENVIRON) if (name ~ {_KEPT_BACK}) print "-u", name }}'"""
"""Prints options of `env` for what an engine does not get. Values are not looked at: one may have any lines."""
REPORT = """"$PYTHON" -P -c 'from specdecode.cli import main; main()' report "$RESULTS\""""


def script(plan: Plan, tool: Tool, ctx: RenderContext) -> str:
    """Shell source that does the whole run. It is to be read too: what it does stands before each step."""
    tool = replace(tool, mark="@MARK@")
    told = [
        "#!/bin/sh",
        f"# {line(plan.experiment.name)} on this machine, without Kubernetes: {line(plan.experiment.title)}",
        "# `specdecode instance` does the same, with checks, resume, and an end to everything if it is interrupted.",
        f"# Engine: {plan.engine.reference}",
        "set -eu",
        'STORE="$PWD/store"                      # models and compiled artifacts: kept for the next run',
        f'RESULTS="$PWD/results/{ctx.run_id}"',
        f"PYTHON={word(sys.executable)}  # it has specdecode",
        """PACKAGE=$("$PYTHON" -P -c 'import os, specdecode; print(os.path.dirname(specdecode.__file__))')""",
        f"POD_IP={engines.address(SHELL, 0)}  # of the first server: it listens on this machine alone",
        "export BUCKET=\"$STORE\" VLLM_API_KEY=$(head -c 24 /dev/urandom | base64 | tr '+/' '-_')",
        'export OPENAI_API_KEY="$VLLM_API_KEY"    # the servers demand it, and the clients send it',
        """MARK=$(printf %s "$STORE" | sha256sum | cut -c 1-12)  # of the containers of this store""",
        'mkdir -p "$STORE"; exec 9> "$STORE/.lock"  # one run at a time on a store',
        'flock -n 9 || { echo "another run uses $STORE" >&2; exit 3; }',
        *_ends(tool),
        'mkdir -p "$STORE/models" "$STORE/compiled" "$STORE/prompts" "$RESULTS/scratch/client" "$RESULTS/logs"',
        'ln -sfn "$STORE/models" "$RESULTS/scratch/client/models"',
        'ln -sfn "$STORE/prompts" "$RESULTS/scratch/client/prompts"',
    ]
    models = [engines.fetching(model, plan, ctx) for model in plan.models_to_stage]
    for program in (*models, *engines.fetching_prompts(plan, ctx)):
        told += ["", *_program(program, '"$RESULTS/scratch"')]
    for prefix, arm in engines.artifacts(plan):
        run = engines.compiler(plan, arm, ctx, SHELL)
        told += ["", f'if [ ! -f "$STORE/{prefix}COMPLETE.json" ]; then', f"# compile for {arm.variant}, once"]
        for model in plan.served.models_of(plan.served.variant(arm.variant)):
            told += _program(engines.comparing(model), '"$STORE"')
        told += [*_start(run, tool), 'ENGINES=$!; wait "$ENGINES"; ENGINES=']
        told += [*_program(engines.keeping(arm, plan, ctx), _shell(str(SHELL.of(run.name)))), "fi"]
    for wave in plan.waves:
        told += ["", *_of_wave(plan, wave, tool, ctx)]
    told += ["", "# the figures, beside the records", "cat > \"$RESULTS/experiment.yaml\" <<'EXPERIMENT'"]
    told += [*to_yaml(plan.experiment).splitlines(), "EXPERIMENT", REPORT]
    return "\n".join(told).replace("@MARK@", "$MARK") + "\n"


def _of_wave(plan: Plan, wave: Wave, tool: Tool, ctx: RenderContext) -> Iterator[str]:
    runs = [engines.server(plan, arm, ctx, SHELL, place=place) for place, arm in enumerate(wave.arms)]
    arms = ", ".join(arm.variant for arm in wave.arms)
    yield f"# wave {wave.index + 1} of {len(plan.waves)}: {arms}"
    for run in runs:
        yield from _start(run, tool)
        yield f'{_variable(run)}=$! ENGINES="$ENGINES $!"'
    for run in runs:
        yield f"until curl -fsS -o /dev/null {run.url}/health; do kill -0 ${_variable(run)}; sleep 5; done"
    for program in asked(plan, wave, ctx, runs):
        yield from _program(program, '"$RESULTS/scratch/client"')
    for run in runs:
        stop = f"{tool.program} stop -t {STOP_S} {tool.named(run.name)}" if isinstance(tool, Containers) else ""
        yield stop or f"kill -- -${_variable(run)}"
    yield from ("wait || true", "ENGINES=")


def _start(run: EngineRun, tool: Tool) -> Iterator[str]:
    """Lines that start a container of the engine in the background, its output in a log."""
    work, file = _shell(str(run.mounts[0].source)), _shell(str(run.mounts[0].source.parent / "run.sh"))
    own = [_shell(str(mount.source)) for mount in run.mounts if not _is_package(mount.source)]
    own += [f"{work}/{path}" for path in run.inner.values()] if isinstance(tool, Containers) else []
    yield f"rm -rf {_shell(str(run.mounts[0].source.parent))}"
    yield f"mkdir -p {' '.join(own)}"
    yield f"cat > {file} <<'SCRIPT'"
    yield from run.script.splitlines()
    yield "SCRIPT"
    log = f'> "$RESULTS/logs/{run.name}.log" 2>&1 9>&- &'
    if isinstance(tool, Environment):
        for source, below in run.inner.items():
            yield f"mkdir -p {work}/$(dirname {below}); ln -sfn {_shell(str(source))} {work}/{below}"
        given = " ".join(f"{name}={_shell(value)}" for name, value in tool.given(run).items())
        path = f"PATH={word(str(tool.folder / 'bin'))}:$PATH"
        yield f"(cd {work}; without=$({_OPTIONS})  # the user's credentials"
        yield f"exec setsid env $without {path} \\\n  {given} \\\n  /bin/sh {file}) {log}"
        return
    words = tool.command(run)
    told = [_shell(part) if "/@" in part or _is_package(Path(part.partition(":")[0])) else word(part) for part in words]
    told = [re.sub(r"^'?[0-9]+:[0-9]+'?$", '"$(id -u):$(id -g)"', part) for part in told]
    text = " ".join(told[:-1])
    text = re.sub(r" (--(?:volume|env|entrypoint|network|cap-drop|workdir|userns) )", r" \\\n  \1", text)
    yield f'{text} "$(cat {file})" {log}'


def _program(program: Program, folder: str) -> Iterator[str]:
    yield f"# {program.title}"
    for path, text in program.files:
        yield f"mkdir -p {folder}/{Path(path).parent}"
        yield from (f"cat > {folder}/{path} <<'FILE'", *text.splitlines(), "FILE")
    given = "".join(f"{name}={value} " for name, value in program.env.items())
    yield f'(cd {folder}; export BUCKET {given}; exec setsid "$PYTHON" -P -m {program.words}) 9>&- &'
    yield 'PROGRAM=$!; wait "$PROGRAM"; PROGRAM='


def _ends(tool: Tool) -> Iterator[str]:
    """Lines after which nothing runs on. A shell answers a signal at once only while it waits for what runs in the
    background, and not every one (dash) does what is told for EXIT if a signal ends it.
    """
    yield from ("PROGRAM= ENGINES=", "ended() {  # nothing runs on, whatever fails", "  set +e; trap '' INT TERM HUP")
    yield '  for each in $PROGRAM $ENGINES; do kill -- "-$each" || kill "$each"; done 2> /dev/null'
    if isinstance(tool, Containers):
        found = f"{tool.program} ps --all --quiet --filter label={LABEL}={tool.mark}"
        yield f"  {found} | xargs -r {tool.program} rm --force"
    yield f'  for each in $PROGRAM $ENGINES; do n=0; while [ $n -lt {STOP_S} ] && kill -s 0 -- "-$each"'
    yield '  do n=$((n + 1)); sleep 1; done; kill -s KILL -- "-$each"; done 2> /dev/null'
    yield from ("}", "trap ended EXIT")
    yield "trap 'exit 129' HUP; trap 'exit 130' INT; trap 'exit 143' TERM"


def _variable(run: EngineRun) -> str:
    return re.sub(r"[^a-z0-9]", "_", run.name)


def _is_package(path: Path) -> bool:
    return str(path) in _PATHS


def _shell(text: str) -> str:
    """A path, or a mount of one, as a word of shell source."""
    for path, variable in _PATHS.items():
        if text.startswith(path):
            return variable[:-1] + text.removeprefix(path) + '"'
    return word(text)
