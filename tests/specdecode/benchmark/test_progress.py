import io
import os
import subprocess
import sys
from pathlib import Path

import specdecode
from specdecode.benchmark.progress import BlockProgress, LiveProgress, LoadProgress, progress_for
from specdecode.records import ErrorKind

from tests.specdecode.benchmark.making import record


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def watch(progress: LoadProgress) -> None:
    progress.begin("base", "case", "", requests=4, measured=1)
    progress.record(record(warmup=True))
    progress.record(record([0.1, 0.3], tokens=11, chunk_tokens=[1, 10]))
    progress.record(record([0.3, 0.5], tokens=11, chunk_tokens=[1, 10]))
    progress.record(record([], end=1, error=ErrorKind.RESET))
    progress.end("base", "case")


def test_lines_in_a_log() -> None:
    stream = io.StringIO()
    with progress_for(stream) as progress:
        assert type(progress) is LoadProgress
        watch(progress)
    text = stream.getvalue()
    assert "1 requests were measured before" in text
    assert "request 0 failed: broken" in text
    assert "done base/case: 3/3 requests" in text
    assert "TTFT p50 200.00 ms, TPOT p50 20.00 ms, 1 failed" in text
    assert "\x1b" not in text


def test_a_line_says_how_long_the_rest_will_take() -> None:
    block = BlockProgress(variant="base", case="case", level="", requests=5)
    assert "left" not in block.line(), "no pace yet"
    block.add(record([0.1, 0.3], tokens=11, chunk_tokens=[1, 10], sent_s=100.0, end=10.0))
    block.add(record([], sent_s=500.0, end=30.0, error=ErrorKind.RESET))
    assert "about 60 s left" in block.line(), "3 of 5 at 20 s each; the time between is another arm's turn"
    block.finished = True
    assert "left" not in block.line()


def test_a_table_on_a_terminal() -> None:
    stream = Terminal()
    with progress_for(stream) as progress:
        assert isinstance(progress, LiveProgress)
        watch(progress)
        progress.message("[not] markup")
    text = stream.getvalue()
    assert "[not] markup" in text
    for cell in ("case", "base", "3/3", "200.00 ms", "20.00 ms"):
        assert cell in text


def test_a_pod_imports_nothing_it_does_not_need() -> None:
    """boto3 costs half a CPU second, and rich is not in the bundle."""
    code = "import sys, specdecode.benchmark.__main__; print(*sorted(sys.modules))"
    environment = {**os.environ, "PYTHONPATH": str(Path(specdecode.__file__).parents[1])}
    modules = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in modules.stdout.split()}
    assert loaded.isdisjoint({"boto3", "botocore", "rich", "aiohttp", "typer", "jinja2", "tokenizers"})
