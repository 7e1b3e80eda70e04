"""Command lines that the project prints or documents, each taken through what reads it: nothing is executed.

bash: its own parser, and what its expansions make of the words. AWS's CLI: botocore's models (service, operation, names
of parameters, and of the members of structures). kubectl and helm: their own parsers, by `--help`. specdecode: its own
parser, the presets, and the settings' own rules, as cdk. make: its targets.
"""

import ast
import importlib.util
import re
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import botocore
import botocore.session
import typer
import yaml
from pydantic import ValidationError
from specdecode.cli import app
from specdecode.experiment import load_engine, load_preset, parse_overrides, preset_names
from specdecode.names import CLUSTER_STACK, STACK

from constructs_lib.settings.fields import Settings
from constructs_lib.settings.reading import SettingsError, read_settings
from tests.docs.markdown import PAGES, ROOT, blocks
from tests.layer import program

PYTHON = ".venv/bin/python"
PROGRAMS = ("aws", "specdecode", ".venv/bin/specdecode", PYTHON, "npx", "kubectl", "make", "helm")
SHELL = {"|", ">", ">>", "&&", ";", "2>&1", "||", "&"}
HOLE = "X1"
"""Stands for what a message fills in."""
COMMANDS: dict[str, Any] = typer.main.get_command(app).commands
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
VERBS = {
    "annotate", "apply", "cordon", "create", "delete", "describe", "exec", "get", "label", "logs", "patch",
    "port-forward", "scale", "taint", "top", "uncordon", "wait", "cluster-info", "cp", "run", "rollout", "auth",
    "config", "edit",
}  # fmt: skip
"""What tells a line of kubectl from a sentence that begins with its name."""
CDK = {"bootstrap", "deploy", "destroy", "diff", "synth", "ls"}
OF_THE_CLI = {
    ("sso", "login"): {"--profile"},
    ("s3", "sync"): {"--exclude", "--region"},
    ("s3", "ls"): {"--region"},
    ("s3", "cp"): {"--recursive", "--region"},
    ("eks", "update-kubeconfig"): {"--name", "--region"},
}
"""Commands of the AWS CLI that no API has, with their options."""
PATTERN = re.compile(r"[<>|;&()$]")
PRESET = re.compile(r"[a-z0-9.-]+(?<!\.yaml)(?<!\.json)")


def commands(text: str) -> list[str]:
    """The command lines in a text: its spans of code, or all of it if it begins with a program."""
    found = [span for span in re.findall(r"`([^`\n]+)`", text) if _is_line(span)]
    if found or "`" in text:
        return found
    lines = [re.split(r"[,;:] ", line.strip())[0] for line in text.splitlines()]
    return [line for line in lines if _is_line(line) and not line.startswith("make ")]


def _is_line(text: str) -> bool:
    words = text.split()
    if len(words) < 2 or words[0] not in PROGRAMS or "…" in text or "..." in text:
        return False
    if words[0] == "kubectl" and not {*words} & VERBS:
        return False
    return words[0] != "specdecode" or words[1] in COMMANDS or words[1] == "--version"


def of_sources() -> Iterator[tuple[str, str]]:
    """Where, and a command line, of every text of the code that is no docstring; HOLE is what is filled in."""
    for root in ("lambda/specdecode", "constructs_lib", "stacks", "tools/make"):
        for path in sorted((ROOT / root).rglob("*.py")):
            for text in _texts(path):
                yield from ((str(path.relative_to(ROOT)), line) for line in commands(text))
    for item in yaml.safe_load((ROOT / "assets/diagnosis.yaml").read_text())["causes"]:
        for text in filter(lambda value: isinstance(value, str), item.values()):
            yield from (("assets/diagnosis.yaml", re.sub(r"\{\w+\}", HOLE, line)) for line in commands(text))


def _texts(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text())
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else HOLE for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and not {id(node)} & (docstrings | inside):
            yield node.value


def of_pages() -> Iterator[tuple[str, str]]:
    """Where, and a command line, of every block of code."""
    for page in PAGES:
        for block in blocks(page):
            for line in block.text.replace("\\\n", " ").splitlines():
                given = re.sub(r"<\w+>", HOLE, line.strip().removeprefix("$ ").removeprefix("- run: "))
                if _is_line(given):
                    yield block.id, given


@cache
def found() -> list[tuple[str, str]]:
    """Where, and a command line, of all of them, each once a place."""
    return sorted({*of_sources(), *of_pages()})


def counted() -> dict[str, tuple[int, int]]:
    """Program -> how often the code prints a line of it, and how often a page shows one."""
    counts = {name: [0, 0] for name in sorted(READERS)}
    for where, line in found():
        for first, *_ in _parts(shlex.split(line, comments=True)):
            if first in PROGRAMS:
                counts[first.removeprefix(".venv/bin/")][".md" in where] += 1
    return {name: (code, pages) for name, (code, pages) in counts.items()}


READERS = {
    "aws": f"botocore {botocore.__version__}'s models: service, operation, names of parameters and of members",
    "helm": "Helm's own parser; a chart must have its version",
    "kubectl": "kubectl's own parser; each is run against the double of the API server too",
    "make": "the targets and variables of the Makefile, the presets",
    "npx": "the CDK's verbs, our stacks, the settings' own rules",
    "python": "the module must be there",
    "specdecode": "the command's own parser, the presets and engines, the settings' own rules",
}
"""Program -> what reads its lines. Of every line bash reads the words first."""


def problems(line: str) -> Iterator[str]:
    """What would not work of a command line."""
    parsed = subprocess.run(["bash", "-n", "-c", line], capture_output=True, text=True, check=False)
    if parsed.returncode:
        yield f"bash: {parsed.stderr.strip()}"
        return
    words = shlex.split(line, comments=True)
    bare = re.sub(r"'[^']*'|\"[^\"]*\"", "", line)
    if not PATTERN.search(bare) and "$" not in line and re.search(r"[{*?\[~!]", line):
        echo = ["bash", "-c", f"printf '%s\\n' {line.split(' #')[0]}"]
        shown = subprocess.run(echo, capture_output=True, text=True, check=False, cwd=ROOT)
        if shown.stdout.splitlines() != words:
            yield f"bash makes other words of it: {shown.stdout.split()}"
    checks = {"aws": _aws, "npx": _cdk, "kubectl": _kubectl, "make": _make, "helm": _helm, PYTHON: _python}
    for first, *rest in _parts(words):
        if first in PROGRAMS:
            yield from checks.get(first, _specdecode)(rest)


def _parts(words: Sequence[str]) -> Iterator[list[str]]:
    """The commands of a line, each without where its output goes."""
    part: list[str] = []
    for word in (*words, ";"):
        if word not in SHELL:
            part.append(word)
        elif part:
            yield part[: part.index(">")] if ">" in part else part
            part = []


def _specdecode(rest: list[str]) -> Iterator[str]:
    command, *given = rest
    if command == "--version" or not given:
        return
    try:
        params = COMMANDS[command].make_context(command, list(given)).params
        reference = params.get("reference") or params.get("experiment") or ""
        if PRESET.fullmatch(reference) and (reference in preset_names() or command not in ("advise", "runs")):
            load_preset(reference, overrides=parse_overrides(params.get("overrides") or []))
        if command == "engines" and PRESET.fullmatch(params["name"] or "") and not params["name"].startswith("my-"):
            load_engine(params["name"])
    except Exception as error:
        if not re.search("Missing (parameter|argument)|requires an argument", str(error)):  # else it is only named
            yield f"specdecode {command}: {error}"
        return
    settings = params.get("settings") or ()
    for key, _, value in (item.partition("=") for item in settings if HOLE not in item.partition("=")[0]):
        if key not in Settings.model_fields:
            yield f"{key}: no such setting"
        elif value and HOLE not in value and not value.isupper():
            try:
                Settings.model_validate({key: value})
            except ValidationError as error:
                yield f"{key}={value}: {error}"


@cache
def _input(service: str, name: str) -> Any:
    """The structure that `aws SERVICE NAME` takes. Raises LookupError, and UnknownServiceError of botocore."""
    model = botocore.session.get_session().get_service_model(service)
    wanted = name.replace("-", "").lower()
    found = [item for item in model.operation_names if item.lower() == wanted]
    if not found:
        raise LookupError(f"{service} has no {name}")
    return model.operation_model(found[0]).input_shape


def _members(shape: Any, depth: int = 8) -> set[str]:
    """Names of all members of structures in it."""
    if shape is None or not depth:
        return set()
    members = getattr(shape, "members", {})
    inner = [*members.values(), getattr(shape, "member", None)]
    return set(members).union(*(_members(each, depth - 1) for each in inner))


def _aws(rest: list[str]) -> Iterator[str]:
    service, name, *given = rest
    options = {word.partition("=")[0] for word in given if word.startswith("--")}
    own = OF_THE_CLI.get((service, name))
    try:
        shape = None if own else _input(service, name)
    except (LookupError, botocore.exceptions.UnknownServiceError) as error:
        yield f"aws: {error!r}"
        return
    taken = own or {"--" + botocore.xform_name(key, "-") for key in shape.members} | {"--region", "--query", "--output"}
    if options - taken:
        yield f"aws {service} {name} has no {', '.join(options - taken)}"
    for option, value in pairwise(given) if not own else ():
        if option.startswith("--") and option not in ("--query", "--filters", "--labels") and value[:2] != "--":
            keys = set(re.findall(r"(?:^|[,{\[])([A-Za-z]+)=", value)) - _members(shape)
            if keys:
                yield f"aws {service} {name} {option}: no {', '.join(keys)}"


def _cdk(rest: list[str]) -> Iterator[str]:
    if rest[0] != "cdk":
        return
    verb, *given = rest[1:]
    if verb not in CDK:
        yield f"cdk has no {verb}"
    context, words = {}, iter(given)
    for word in words:
        if word in ("-c", "--require-approval"):
            value = next(words)
            if word == "-c":
                context[value.partition("=")[0]] = value.partition("=")[2]
        elif word not in (STACK, CLUSTER_STACK, "--all", "--force", "--quiet", HOLE):
            yield f"cdk {verb}: {word}"
    try:
        read_settings({key: value for key, value in context.items() if HOLE not in value})
    except SettingsError as error:
        yield f"cdk {verb}: {error}"


def _kubectl(rest: list[str]) -> Iterator[str]:
    yield from _parsed("kubectl", rest)


def _helm(rest: list[str]) -> Iterator[str]:
    """The newest chart of a repository is another one tomorrow."""
    if rest[0] in ("upgrade", "install", "template") and not any(word.startswith("--version") for word in rest):
        yield f"helm {rest[0]} without --version"
    yield from _parsed("helm", rest)


def _parsed(name: str, rest: list[str]) -> Iterator[str]:
    """What the program's own parser says: it reads verb and options before it shows their help."""
    done = subprocess.run([program(name), *rest, "--help"], capture_output=True, text=True, check=False)
    if done.returncode:
        yield f"{name}: {done.stderr.strip()}"


def _make(rest: list[str]) -> Iterator[str]:
    for word in rest:
        variable, equals, value = word.partition("=")
        if not equals and word not in TARGETS:
            yield f"make has no {word}"
        elif variable == "EXPERIMENT" and PRESET.fullmatch(value) and value not in preset_names():
            yield f"no preset {value}"


def _python(rest: list[str]) -> Iterator[str]:
    if rest[0] == "-m" and importlib.util.find_spec(rest[1]) is None:
        yield f"no module {rest[1]}"
