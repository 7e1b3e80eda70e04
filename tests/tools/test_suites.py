"""Suites note where they passed, and the table says which are older than the code that they judge."""

import json
import math
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from tools import suites
from tools.suites import Suite


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a package, and a suite that judges it."""
    for folder in ("package", "tests", "tools"):
        (tmp_path / folder).mkdir()
    (tmp_path / "package" / "code.py").write_text("right = True\n")
    (tmp_path / "tests" / "one.py").write_text(
        "def test_one():\n    assert 'right = True' in open('package/code.py').read()\n"
    )
    monkeypatch.setattr(suites, "ROOT", tmp_path)
    words = "-p no:cacheprovider -p no:randomly tests/*.py"
    found = {
        "one": Suite(words, ("package",), 1),
        "all": Suite(words, ("package", "tests"), 60),
        "rare": Suite("", (), 1, needs="rare"),
    }
    monkeypatch.setattr(suites, "SUITES", found)
    git(tmp_path, "init", "--quiet")
    (tmp_path / ".gitignore").write_text("__pycache__\n")
    commit(tmp_path)
    return tmp_path


def git(folder: Path, *words: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)


def commit(folder: Path) -> None:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "a")


def state(name: str) -> str:
    (line,) = [line for line in suites.table().splitlines() if line.startswith(f"{name} ")]
    return " ".join(line.partition("within")[0].split()[1:])


def test_a_pass_counts_until_the_code_changes_that_it_judges(checkout: Path) -> None:
    assert state("one") == "never passed"
    assert suites.run("one")
    assert state("one") == "passed"
    commit(checkout)  # the note itself
    (checkout / "tools" / "other.py").write_text("x = 1\n")
    commit(checkout)
    assert state("one") == "passed", "of another path"
    (checkout / "package" / "code.py").write_text("right = True  # still\n")
    assert state("one") == "older than its code", "also before the change is committed"
    commit(checkout)
    assert state("one") == "older than its code"
    (note,) = json.loads((checkout / suites.NOTED).read_text()).values()
    assert (note["passed"], note["failed"], note["dirty"]) == (1, 0, False)


@pytest.mark.parametrize(
    "line",
    [
        "from tests.by import it",
        "from tests.by.it import x",
        "import tests.by.it",
        "from .by.it import x",
        "from .by import it",
    ],
)
def test_it_judges_the_helpers_that_its_tests_import(checkout: Path, line: str) -> None:
    """Also by way of another helper, and of a module elsewhere."""
    (checkout / "tests" / "conftest.py").write_text(f"def later():\n    {line}\n")
    (checkout / "tests" / "by").mkdir()
    (checkout / "tests" / "by" / "it.py").write_text("import tools.other\n")
    (checkout / "tools" / "other.py").touch()
    helpers = ["tests/by/it.py", "tests/conftest.py", "tests/one.py", "tools/other.py"]
    assert suites.judged(suites.SUITES["one"]) == ["package", *helpers]
    assert suites.judged(suites.SUITES["all"]) == ["package", "tests", "tools/other.py"]


def test_what_a_suite_judges_is_what_it_runs() -> None:
    least = {"lambda", "assets", "requirements", "pyproject.toml", "package.json", "Makefile", "tools/make"}
    assert all(least <= set(suite.judges) for suite in suites.SUITES.values())
    double, chaos = (set(suites.judged(suites.SUITES[name])) for name in ("double", "chaos"))
    assert {"tests/patience.py", "tests/canaries.py", "rehearsal"} <= double
    assert {"tests/specdecode/steps/world.py", "tests/giving_back/replay.py", "tests/backstop/aws.py"} <= chaos
    assert "tests/end_to_end/attack.py" not in double | chaos


def test_a_failure_is_noted_beside_the_last_pass(checkout: Path) -> None:
    assert suites.run("one")
    good = suites.noted()["one"].good_commit
    (checkout / "package" / "code.py").write_text("right = False\n")
    commit(checkout)
    assert not suites.run("one")
    note = suites.noted()["one"]
    assert (note.passed, note.failed, note.good_commit) == (0, 1, good) and note.commit != good
    assert state("one") == "FAILED"


def test_a_change_while_it_runs_makes_no_pass(checkout: Path) -> None:
    fix = "import pathlib, subprocess\npathlib.Path('package/code.py').write_text('right = True')\n"
    committing = "subprocess.run('git -c user.name=a -c user.email=b commit -qam fix', shell=True, check=True)\n"
    (checkout / "tests" / "one.py").write_text(f"{fix}{committing}def test_one():\n    pass\n")
    (checkout / "package" / "code.py").write_text("right = False\n")
    commit(checkout)
    assert not suites.run("one")
    assert (suites.noted()["one"].passed, suites.noted()["one"].dirty, state("one")) == (1, True, "never passed")
    (checkout / "tests" / "one.py").write_text("open('tests/one.py', 'w').write('def (')\ndef test_one():\n    pass\n")
    commit(checkout)
    assert not suites.run("one") and suites.noted()["one"].dirty


def test_a_pass_beside_a_load_is_noted_by_itself(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (
        suites.run("one") and "1 of 3 suites passed on this code" in suites.table() and ", 0 of them" in suites.table()
    )
    monkeypatch.setattr(suites.os, "getloadavg", lambda: (20.0, 0.0, 0.0))
    assert suites.run("one") and ", 1 of them both calm and beside a load of 20" in suites.table()
    assert "beside a load of 20 (" in suites.table()
    (checkout / "package" / "code.py").write_text("right = True  # still\n")
    commit(checkout)
    assert state("one") == "older than its code"
    assert suites.run("one") and state("one") == "passed" and ", 0 of them" in suites.table()


@pytest.mark.parametrize("hidden", ["showUntrackedFiles", "ignored", "assume-unchanged", "skip-worktree"])
def test_what_git_is_told_to_pass_over_is_no_pass(checkout: Path, hidden: str) -> None:
    (checkout / "package" / "code.py").write_text("right = False\n")
    (checkout / ".gitignore").write_text("__pycache__\n" + "conftest.py\n" * (hidden == "ignored"))
    commit(checkout)
    if hidden.endswith(("unchanged", "worktree")):
        git(checkout, "update-index", f"--{hidden}", "package/code.py")
        (checkout / "package" / "code.py").write_text("right = True\n")
    else:
        git(checkout, "config", "status.showUntrackedFiles", "no" if hidden == "showUntrackedFiles" else "normal")
        replaced = (
            "def pytest_collection_modifyitems(items):\n    for item in items:\n        item.obj = lambda: None\n"
        )
        (checkout / "tests" / "conftest.py").write_text(replaced)
    assert not suites.run("one") and suites.noted()["one"].passed == 1 and state("one") == "never passed"


def test_options_of_somebodys_own_tests_choose_no_cases_and_what_was_skipped_is_said(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    more = "import pytest\ndef test_two():\n    pytest.skip()\ndef test_three():\n    assert 0\n"
    (checkout / "tests" / "one.py").write_text(f"def test_one():\n    pass\n{more}")
    commit(checkout)
    monkeypatch.setenv("PYTEST_ADDOPTS", "-k test_one")
    chooses = "def pytest_collection_modifyitems(items):\n    del items[1:]\n"
    (tmp_path_factory.mktemp("own") / "chooses.py").write_text(chooses)
    monkeypatch.setenv("PYTEST_PLUGINS", "chooses")
    monkeypatch.setenv("PYTHONPATH", str(next(tmp_path_factory.getbasetemp().glob("own*"))))
    assert not suites.run("one")
    assert "last: 1 passed, 1 failed, 1 skipped, " in suites.table()


def test_a_tree_with_changes_does_not_count(checkout: Path) -> None:
    (checkout / "unknown.py").touch()
    assert not suites.run("one")
    assert suites.noted()["one"].dirty and state("one") == "never passed"
    assert "with changes" in suites.table()


def test_what_takes_longer_than_its_bound_is_stopped_and_has_failed(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (checkout / "tests" / "one.py").write_text("import time\ntime.sleep(600)\n")
    commit(checkout)
    assert not suites.run("one", most_s=1)
    assert suites.noted()["one"].failed
    monkeypatch.setitem(suites.SUITES, "one", suites.SUITES["one"]._replace(minutes=1 / 60))
    assert not suites.run("one")


def test_a_case_may_take_longer_than_in_make_test(checkout: Path) -> None:
    (checkout / "pytest.ini").write_text("[pytest]\ntimeout = 0.1\n")
    (checkout / "tests" / "one.py").write_text("import time\ndef test_one():\n    time.sleep(0.3)\n")
    commit(checkout)
    assert suites.run("one")


@pytest.mark.parametrize(
    ("name", "most_s", "case_s"), [("double", math.inf, 2400), ("chaos", math.inf, suites.CASE_S), ("chaos", 600, 300)]
)
def test_a_case_that_hangs_does_not_end_its_suite(
    name: str, most_s: float, case_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = list[list[str]]()
    monkeypatch.setattr(suites, "_within", lambda _seconds, command, _environment: commands.append(command) or (1, 0.0))
    monkeypatch.setattr(suites, "write", lambda _results: None)
    assert not suites.run(name, most_s=most_s)
    [given] = [word for word in commands[0] if "timeout" in word]
    assert float(given.rpartition("=")[2]) == case_s


def test_all_runs_what_did_not_pass_here_as_far_as_the_minutes_go(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran, limits = list[str](), list[float]()

    def run(name: str, *, most_s: float) -> bool:
        ran.append(name)
        limits.append(most_s)
        note = suites.Noted("c", "now", False, 1, 0, 1, "c", "now", suites.code(suites.SUITES[name]))
        suites.write(suites.noted() | {name: note})
        return True

    monkeypatch.setattr(suites, "run", run)
    assert suites.run_all(30)
    assert ran == ["one"], "the bound of the other is an hour, and the third needs a file"
    assert suites.run_all(0)
    assert ran == ["one", "all"], "the first has passed"
    assert 29 * 60 < limits[0] <= 30 * 60 and limits[1] == math.inf
    *_, rare, end = capsys.readouterr().out.splitlines()
    assert rare.startswith("rare") and end.startswith("2 of 3 suites passed on this code")


def test_the_short_ones_and_slow_begin_within_the_hour_of_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine where each takes a fifth of its bound."""
    ran, now = list[str](), [0.0]

    def run(name: str, *, most_s: float) -> bool:
        assert 60 * suites.SUITES[name].minutes <= most_s <= 3600
        ran.append(name)
        now[0] += 12 * suites.SUITES[name].minutes
        return True

    monkeypatch.setattr(suites, "run", run)
    monkeypatch.setattr(suites, "fresh", lambda *_: False)
    monkeypatch.setattr(suites, "time", SimpleNamespace(monotonic=lambda: now[0]))
    assert suites.run_all(60)
    assert {"slow", *(name for name, suite in suites.SUITES.items() if suite.minutes <= 20)} <= set(ran)


def test_every_file_of_a_slow_suite_is_of_one() -> None:
    """And every path that a suite names exists."""
    named = [
        path for suite in suites.SUITES.values() for word in suite.words.split() for path in suites._expanded(word)
    ]
    assert [path for path in named if path.startswith("tests") and not (suites.ROOT / path).exists()] == []
    judged = [path for suite in suites.SUITES.values() for path in suite.judges]
    assert [path for path in judged if not (suites.ROOT / path).exists()] == []
    files = [path for path in (suites.ROOT / "tests/end_to_end").rglob("*.py") if "\ndef test_" in path.read_text()]
    assert files and {str(path.relative_to(suites.ROOT)) for path in files} <= set(named)


@pytest.mark.parametrize("cluster", ["one-node", "two-nodes"])
def test_every_file_of_faults_runs_on_both_clusters(cluster: str) -> None:
    words = [suite.words.split() for suite in suites.SUITES.values() if suite.words.startswith(f"-k {cluster} ")]
    folder = suites.ROOT / "tests/end_to_end/faults"
    files = {str(path.relative_to(suites.ROOT)) for path in folder.glob("[!_]*.py")}
    assert files and files == {path for each in words for word in each[2:] for path in suites._expanded(word)}
