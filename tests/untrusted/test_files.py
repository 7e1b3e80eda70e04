"""Files that no tool writes: a pipe, a device, gigabytes, endless nesting and numbers. Each is refused, in one line."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from specdecode.cli import app
from specdecode.prompts import read_set
from specdecode.prompts.categories import told_apart
from specdecode.untrusted import MAX_FILE_BYTES
from typer.testing import CliRunner

HERE = Path(__file__).resolve().parents[1] / "specdecode" / "analysis" / "other_tools" / "imports"
REAL = {"guidellm": HERE / "guidellm/sd/guidellm.json", "vllm": HERE / "vllm/sd/vllm.json"}


def _changed(tool: str, old: str, new: str) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        text = REAL[tool].read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    return write


def _large(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(6 * 2**30)


FILES: dict[str, tuple[Callable[[Path], None], str]] = {
    "pipe": (os.mkfifo, "no regular file but a pipe or a device"),
    "device": (lambda path: path.symlink_to("/dev/zero"), "no regular file but a pipe or a device"),
    "6 GB": (_large, f"larger than {MAX_FILE_BYTES // 2**20} MiB"),
    "deep": (lambda path: path.write_text('{"a":' * 100_000) and None, "(nested too deeply)|recursion limit"),
}
IMPORTED: dict[str, tuple[Callable[[Path], None], str]] = {
    **FILES,
    "digits": (_changed("vllm", '"duration": ', '"duration": ' + "9" * 401 + ', "x": '), "a number of 401 digits"),
    "year": (_changed("guidellm", '"start_time": ', '"start_time": 9e11, "x": '), "start_time"),
    "inside": (_changed("guidellm", '"request_args": "', '"request_args": "' + "[" * 5000), ""),
}


@pytest.fixture(autouse=True)
def _no_hang() -> Iterator[None]:
    signal.alarm(120)
    yield
    signal.alarm(0)


def call(*words: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(map(str, words)))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize(
    "command", ["report F", "winner F", "compare F F", "gate F..F", "advise F", "prompts check P", "validate P"]
)
def test_it_is_refused_by_every_command_that_reads_it(command: str, kind: str, tmp_path: Path) -> None:
    make, said = FILES[kind]
    folder = tmp_path / "run"
    folder.mkdir()
    path = folder / "report.json"
    make(path)
    words = [word.replace("F", str(folder)).replace("P", str(path)) for word in command.split()]
    code, output = call(*words)
    assert code == 2
    limit = "larger than" if kind == "6 GB" and "validate" in command else said
    assert any(part.strip("()") in output for part in limit.split("|")), output


@pytest.mark.parametrize("kind", IMPORTED)
def test_nor_is_it_imported(kind: str, tmp_path: Path) -> None:
    make, said = IMPORTED[kind]
    path = tmp_path / "result" / "found.json"
    path.parent.mkdir()
    make(path)
    base = REAL["guidellm" if kind in ("year", "inside") else "vllm"]
    code, output = call("import", f"base={base}", f"sd={path.parent}")
    assert code == (0 if kind == "inside" else 2), output
    assert said.split("|")[0].strip("()") in output


def test_a_pipe_among_reports_is_left_out_of_the_list(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "report.json")
    code, output = call("runs", "--folder", tmp_path)
    assert (code, "left out" in output) == (0, True)


@pytest.mark.parametrize("long", [False, True])
def test_categories_that_differ_in_punctuation_take_linear_time(*, long: bool) -> None:
    """Counted, not timed: numbers that are tried for a name."""
    stem = "a" * 33
    given = [(f"{stem}{n:07d}" if long else "c", f"{n}{end}") for n in range(3000) for end in ("!", "?")]
    tried = 0

    class Taken(set[str]):
        def __contains__(self, name: object) -> bool:
            nonlocal tried
            tried += 1
            return super().__contains__(name)

    import specdecode.prompts.categories as categories

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(categories, "set", Taken, raising=False)
        names = list(told_apart(given).values())
    assert len(set(names)) == len(names) == 6000
    assert 1000 < tried < 20_000


def test_a_file_of_many_categories_is_read_once(tmp_path: Path) -> None:
    rows = [{"question_id": n, "category": f"c{'!' * (n % 7)}{n}", "turns": ["?"]} for n in range(3000)]
    data = "".join(json.dumps(row) + "\n" for row in rows).encode()
    found = read_set(data, name="x")
    assert sum(len(found.of(category)) for category in found.categories) == len(rows)
    (tmp_path / "many.jsonl").write_bytes(data)
    code, output = call("bench", "http://127.0.0.1:9", "--prompts", tmp_path / "many.jsonl")
    assert (code, "3,000 categories; 1,000 can be measured" in output) == (2, True)
    code, output = call("prompts", "check", tmp_path / "many.jsonl")
    assert (code, "and 2,800 more" in output) == (0, True)
