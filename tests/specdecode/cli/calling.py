"""Command lines, called as a user types them."""

from collections.abc import Mapping

from specdecode.cli import app
from typer.testing import CliRunner, Result


def call(*words: object, code: int = 0, env: Mapping[str, str] | None = None) -> Result:
    """Its result. It must end with `code`, and never with an exception."""
    result = CliRunner().invoke(app, [*map(str, words)], env=env)
    assert result.exit_code == code, result.output + repr(result.exception)
    return result
