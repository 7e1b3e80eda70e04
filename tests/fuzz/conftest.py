from typing import Any

from tests.fuzz.profile import tried


def pytest_terminal_summary(terminalreporter: Any) -> None:
    for name, count in sorted(tried.items()):
        terminalreporter.write_line(f"{name}: {count} examples")
