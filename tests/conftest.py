"""Fixtures that several packages' tests share."""

from __future__ import annotations

import gc
import json
import re
import signal
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.testing
from hypothesis import HealthCheck, settings
from specdecode.experiment import kept

import constructs_lib  # noqa: F401 - before any `aws_cdk`, as it says
from tests.templates import Templates

ROOT = Path(__file__).resolve().parents[1]
STACKS = ("TrainiumClusterStack", "SpecDecodeStack")
Template = dict[str, Any]
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")  # hypothesis fails a property by the clock, unless it is told not to

signal.signal(signal.SIGINT, signal.default_int_handler)
"""A shell ignores Ctrl-C for what it starts in its background, and so would all that a test starts and interrupts."""

typer.testing._get_command = cache(typer.testing._get_command)
"""All commands with their options are built once, not for each call (23 ms of CPU)."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Say which tests one of `make test`'s processes runs by itself: all that share a synth, else all of a file.

    Those of the synth come first, so that no process is left alone with them at the end.
    """
    groups: dict[str, list[pytest.Item]] = {"synth": []}
    for item in items:
        name = "synth" if item.get_closest_marker("synth") else item.nodeid.split("::")[0]
        item.add_marker(pytest.mark.xdist_group(name))
        groups.setdefault(name, []).append(item)
    items[:] = [item for group in groups.values() for item in group]


@pytest.fixture(autouse=True, scope="session")
def no_deployment_of_mine() -> Iterator[None]:
    """No test reads the deployment.json of who runs it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kept, "checkout", lambda: None)
        yield


def pytest_collection_finish() -> None:
    """What was imported and collected lives to the end: the collector of garbage need not look at it again."""
    gc.collect()
    gc.freeze()


@dataclass(frozen=True)
class Assembly:
    """A synthesized app."""

    folder: Path
    findings: tuple[tuple[str, str], ...]
    """Of cdk-nag, and of the validator where it ran: rule (with its finding) and path of the construct."""

    def raw(self, stack: str) -> Template:
        """The template of `stack` as it is deployed."""
        return json.loads((self.folder / f"{stack}.template.json").read_text())

    def templates(self) -> Templates:
        """Those of all its stacks, to look into."""
        made = [stack for stack in STACKS if (self.folder / f"{stack}.template.json").exists()]
        return Templates({stack: self.raw(stack) for stack in made})

    def template(self, stack: str) -> Template:
        """The template with every asset's hash replaced by its name, so that only our own changes show."""
        text = (self.folder / f"{stack}.template.json").read_text()
        assets = json.loads((self.folder / f"{stack}.assets.json").read_text())["files"]
        for digest, asset in assets.items():
            text = text.replace(digest, "asset:" + re.sub(r"\W+", "-", asset.get("displayName") or "unnamed"))
        text = re.sub(r"\b[0-9a-f]{64}\b", "sha256", text)
        template = json.loads(text)
        template.pop("Parameters", None)
        template.pop("Rules", None)
        return template


def synthesize(folder: Path, *, validator: bool = False, **context: Any) -> Assembly:
    """Synthesize both stacks with cdk.json's flags and `context`, a stand-in bundle, cdk-nag, maybe the validator."""
    import aws_cdk as cdk
    from cdk_nag import AwsSolutionsChecks

    from app import compose
    from constructs_lib.settings.reading import read_settings
    from constructs_lib.storage.bundle import Bundle

    stand_in = folder / "bundle.zip"
    with zipfile.ZipFile(stand_in, "w") as archive:
        archive.writestr(zipfile.ZipInfo("specdecode/__init__.py", (1980, 1, 1, 0, 0, 0)), "")
    flags = json.loads((ROOT / "cdk.json").read_text())["context"]
    out = folder / "cdk.out"
    app = cdk.App(
        outdir=str(out),
        context=flags,
        analytics_reporting=False,
        tree_metadata=False,
        stack_traces=False,
        builtin_cloud_formation_validation=validator,
    )
    compose(app, settings=read_settings(context), bundle=Bundle(path=stand_in, sha256="0" * 64))
    cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    try:
        app.synth()
    except RuntimeError as error:
        if "ValidationFailed" not in str(error):
            raise
    report = json.loads((out / "validation-report.json").read_text())
    findings = [
        (violation["ruleName"], construct["constructPath"])
        for plugin in report["pluginReports"]
        for violation in plugin["violations"]
        for construct in violation["violatingConstructs"]
    ]
    return Assembly(folder=out, findings=tuple(findings))


@pytest.fixture(scope="session")
def assembly(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Assembly]:
    """The app with default settings, synthesized once a session."""
    yield synthesize(tmp_path_factory.mktemp("default"))


@pytest.fixture(scope="session")
def templates(assembly: Assembly) -> Templates:
    """Both templates as they are deployed."""
    return assembly.templates()
