"""Shared by the pod programs: a line of progress, a line of failure, an exit code of the table."""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple, NoReturn

from specdecode import names
from specdecode.escape import clip, line
from specdecode.exit_codes import Exit

LONGEST = 4000
"""Most characters of a line in the log."""


class PodError(Exception):
    """A program cannot go on: the exit code, and one line for the log."""

    def __init__(self, code: int, message: str) -> None:
        self.code = int(code)
        super().__init__(clip(line(" ".join(message.split())), LONGEST))


class Parser(argparse.ArgumentParser):
    """Wrong arguments end with Exit.USAGE and one line."""

    def error(self, message: str) -> NoReturn:
        raise PodError(Exit.USAGE, message)


class PodArm(NamedTuple):
    """A server that a program asks."""

    name: str
    url: str
    model: str
    """The model's name there."""
    api_key: str | None


def add_arms(parser: Parser) -> None:
    """The options that name the servers to call, and the model's name at all or at one of them."""
    parser.add_argument("--model", required=True)
    parser.add_argument("--arm", action="append", required=True, metavar="NAME=URL")
    parser.add_argument("--arm-model", action="append", default=[], metavar="NAME=MODEL")


def arms_of(options: argparse.Namespace) -> dict[str, PodArm]:
    """The servers by name, their keys from the environment."""
    models = dict(pair.split("=", 1) for pair in options.arm_model)
    found = (arm.partition("=") for arm in options.arm)
    return {
        name: PodArm(name, url, models.get(name, options.model), names.api_key(name, os.environ))
        for name, _, url in found
    }


def say(message: str) -> None:
    """Print one line of progress in the pod's log, whatever the message holds."""
    print(f"specdecode: {clip(line(message), LONGEST)}", flush=True)


def run(main: Callable[[Sequence[str]], None]) -> NoReturn:
    """Run a program with the command line's arguments and end the process with its exit code."""
    try:
        main(sys.argv[1:])
    except PodError as error:
        print(f"specdecode: error {error.code}: {error}", file=sys.stderr, flush=True)
        raise SystemExit(error.code) from None
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        print(f"specdecode: error {Exit.NO_SPACE}: the local disk is full: {error}", file=sys.stderr, flush=True)
        raise SystemExit(Exit.NO_SPACE) from None
    raise SystemExit(Exit.OK)
