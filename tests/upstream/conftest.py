"""Upstream's files for the comparisons, and a summary that names every file that one was made with."""

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.layer import program
from tools.upstream.lock import CHART, Absent, Folder, read_lock

NOTES = pytest.StashKey[dict[str, tuple[str, list[str]]]]()
Manifest = dict[str, Any]


class Upstream:
    """Upstream's files at the lock's revisions. A file that is absent skips the test; a changed one fails it."""

    def __init__(self, folder: Folder, used: list[str]) -> None:
        self._folder = folder
        self._used = used

    def bytes(self, source: str, path: str) -> bytes:
        """A file's bytes."""
        where = self._folder.lock[source]
        try:
            data = self._folder.read(source, path)
        except Absent as reason:
            pytest.skip(str(reason))
        revision = where.revision[:12] if re.fullmatch("[0-9a-f]{40}", where.revision) else where.revision
        why = f" ({where.why})" if where.why else ""
        self._used.append(f"{where.url.split('://')[-1]} {revision} {path}{why}")
        return data

    def text(self, source: str, path: str) -> str:
        """A file's text."""
        return self.bytes(source, path).decode("utf-8")

    def revision(self, source: str) -> str:
        """The lock's revision of a source."""
        return self._folder.lock[source].revision

    def tree(self, source: str, below: str) -> Path:
        """The folder `below` of a source, every file of the lock in it looked at."""
        for path in self._folder.lock[source].files:
            if path.startswith(f"{below}/"):
                self.bytes(source, path)
        return self._folder.root / source / below


@pytest.fixture
def upstream(request: pytest.FixtureRequest) -> Upstream:
    """The folder that `make upstream` fetched, or the one that UPSTREAM names."""
    used: list[str] = []
    doc = (getattr(request.function, "__doc__", None) or request.node.name).split("\n")[0]
    request.config.stash.setdefault(NOTES, {})[request.node.nodeid] = (doc, used)
    root = Path(__file__).resolve().parents[2]
    return Upstream(Folder(Path(os.environ.get("UPSTREAM") or root / ".upstream"), read_lock()), used)


@pytest.fixture(scope="session")
def helm() -> Path:
    """The Helm that installs the charts in a deployment."""
    try:
        subprocess.run([program("helm"), "version"], check=True, capture_output=True)
    except OSError as error:
        pytest.skip(f"the layer's Helm is for Linux on x86_64 and does not run here: {error}")
    return program("helm")


@pytest.fixture
def render(helm: Path, tmp_path: Path) -> Callable[..., list[Manifest]]:
    """`helm template` of a chart (a folder or an archive) for Kubernetes 1.35: the objects that it would install."""

    def rendered(chart: Path, *, release: str, namespace: str, values: Manifest) -> list[Manifest]:
        given = tmp_path / "values.json"
        given.write_text(json.dumps(values))
        done = subprocess.run(
            [helm, "template", release, chart, "--namespace", namespace, "--values", given, "--kube-version", "1.35"],
            capture_output=True,
            text=True,
            env={"HOME": str(tmp_path), "PATH": ""},
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return [obj for obj in yaml.safe_load_all(done.stdout) if obj]

    return rendered


def show_values(helm: Path, chart: Path) -> str:
    """The chart's own values, as YAML."""
    return subprocess.run([helm, "show", "values", chart], check=True, capture_output=True, text=True).stdout


@pytest.fixture
def neuron_chart(upstream: Upstream, tmp_path: Path) -> Path:
    """The Neuron chart as its registry has it."""
    where = tmp_path / CHART
    where.write_bytes(upstream.bytes("neuron-chart", CHART))
    return where


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """What was compared with which file."""
    notes = terminalreporter.config.stash.get(NOTES, {})
    if not notes:
        return
    terminalreporter.section("compared with upstream")
    for outcome, doc, used in _lines(terminalreporter, notes):
        terminalreporter.write_line(f"{outcome:<7} {doc}")
        for name in used:
            terminalreporter.write_line(f"        {name}")


def _lines(reporter: Any, notes: dict[str, tuple[str, list[str]]]) -> Iterator[tuple[str, str, list[str]]]:
    for outcome in ("passed", "failed", "error", "skipped"):
        seen: dict[str, list[str]] = {}
        count: dict[str, int] = {}
        for report in reporter.stats.get(outcome, ()):
            if report.nodeid in notes:
                doc, used = notes[report.nodeid]
                count[doc] = count.get(doc, 0) + 1
                seen.setdefault(doc, []).extend(name for name in used if name not in seen[doc])
        for doc, used in seen.items():
            shown = used if len(used) <= 5 else [*used[:2], f"… and {len(used) - 2} more files of it"]
            yield outcome, f"{doc} ({count[doc]} cases)" if count[doc] > 1 else doc, shown
