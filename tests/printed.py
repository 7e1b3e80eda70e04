"""Command lines that the project prints or documents, each taken through what reads it: nothing is executed.

bash: its own parser, and what its expansions make of the words. AWS's CLI: botocore's models (service, operation, names
of parameters, and of the members of structures). specdecode: its own parser, and the settings' own fields. cdk, make,
kubectl and helm: what of them is used here.
"""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import botocore.exceptions
import botocore.session
import typer
import yaml
from pydantic import ValidationError
from specdecode.cli import app
from specdecode.names import CLUSTER_STACK, STACK

from constructs_lib.settings.fields import Settings
from tests.docs import test_operations as operations
from tests.docs.markdown import PAGES, ROOT, blocks

PROGRAMS = ("aws", "specdecode", ".venv/bin/specdecode", "npx", "kubectl", "make", "helm")
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
CDK = {"bootstrap", "deploy", "destroy", "diff", "synth", "ls"}
OF_THE_CLI = {("sso", "login"), ("s3", "sync"), ("s3", "ls")}
"""Commands of the AWS CLI that no API has."""
PATTERN = re.compile(r"[<>|;&()$]")


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
    for page in (page for page in PAGES if page.name != "cli.md"):  # its usage lines are the parser's own
        for block in blocks(page):
            for line in block.text.replace("\\\n", " ").splitlines():
                given = re.sub(r"<\w+>", HOLE, line.strip().removeprefix("$ ").removeprefix("- run: "))
                if _is_line(given):
                    yield block.id, given


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
    end = next((n for n, word in enumerate(words) if word in SHELL), len(words))
    program, *rest = words[:end]
    checks = {"aws": _aws, "npx": _cdk, "kubectl": _kubectl, "make": _make, "helm": _helm}
    yield from checks.get(program, _specdecode)(rest)
    if words[end : end + 1] == ["&&"]:
        yield from problems(shlex.join(words[end + 1 :]))


def _specdecode(rest: list[str]) -> Iterator[str]:
    command, *given = rest
    if command == "--version" or not given:
        return
    try:
        context = COMMANDS[command].make_context(command, list(given))
    except Exception as error:
        if not re.search("Missing (parameter|argument)|requires an argument", str(error)):  # else it is only named
            yield f"specdecode {command}: {error}"
        return
    settings = context.params.get("settings") or ()
    for key, _, value in (item.partition("=") for item in settings if HOLE not in item.partition("=")[0]):
        if key not in Settings.model_fields:
            yield f"{key}: no such setting"
        elif value and HOLE not in value and not value.isupper():
            try:
                Settings.model_validate({key: value})
            except ValidationError as error:
                yield f"{key}={value}: {error}"


@cache
def _members(service: str, operation_name: str) -> frozenset[str]:
    """Names of all members of structures in an operation's input."""
    model = botocore.session.get_session().get_service_model(service)
    wanted = operation_name.replace("-", "").lower()
    name = next(name for name in model.operation_names if name.lower() == wanted)
    found: set[str] = set()

    def walk(shape: Any, depth: int) -> None:
        if depth > 8 or shape is None:
            return
        for key, member in getattr(shape, "members", {}).items():
            found.add(key)
            walk(member, depth + 1)
        walk(getattr(shape, "member", None), depth + 1)

    walk(model.operation_model(name).input_shape, 0)
    return frozenset(found)


def _aws(rest: list[str]) -> Iterator[str]:
    service, name, *given = rest
    if (service, name) in OF_THE_CLI:
        return
    try:
        operations.test_aws_commands_exist(shlex.join(["aws", *rest]))
    except (AssertionError, LookupError, ValueError, botocore.exceptions.UnknownServiceError) as error:
        yield f"aws: {error!r}"
        return
    if service == "s3" or (service, name) in operations.CUSTOMIZED:
        return
    for option, value in pairwise(given):
        if option.startswith("--") and option not in ("--query", "--filters") and not value.startswith("--"):
            keys = set(re.findall(r"(?:^|[,{\[])([A-Za-z]+)=", value))
            if keys - _members(service, name) and option not in ("--labels",):
                yield f"aws {service} {name} {option}: no {', '.join(keys - _members(service, name))}"


def _cdk(rest: list[str]) -> Iterator[str]:
    if rest[0] != "cdk":
        return
    verb, *given = rest[1:]
    if verb not in CDK:
        yield f"cdk has no {verb}"
    words = iter(given)
    for word in words:
        if word in ("-c", "--require-approval"):
            value = next(words)
            if word == "-c" and value.partition("=")[0] not in Settings.model_fields:
                yield f"{value}: no such setting"
        elif word not in (STACK, CLUSTER_STACK, "--all", "--force", "--quiet", HOLE):
            yield f"cdk {verb}: {word}"


def _kubectl(rest: list[str]) -> Iterator[str]:
    verbs = [word for word in rest if not word.startswith("-")]
    if not verbs or verbs[0] not in VERBS:
        yield f"kubectl has no {' '.join(verbs[:1])}"


def _make(rest: list[str]) -> Iterator[str]:
    for word in rest:
        if "=" not in word and word not in TARGETS:
            yield f"make has no {word}"


def _helm(rest: list[str]) -> Iterator[str]:
    """The newest chart of a repository is another one tomorrow."""
    if rest[0] in ("upgrade", "install", "template") and not any(word.startswith("--version") for word in rest):
        yield f"helm {rest[0]} without --version"
