"""Runs a benchmark from its specification to an exit code: to its end, or to the first signal."""

import asyncio
import signal
from collections.abc import Mapping

from specdecode.benchmark.clients import NotTogether
from specdecode.benchmark.endpoint import Endpoint
from specdecode.benchmark.outcome import Options, Outcome, failed_beyond
from specdecode.benchmark.probe import ArmNotReady
from specdecode.benchmark.progress import progress_for
from specdecode.benchmark.prompts import BadPrompts
from specdecode.benchmark.results import BadResults
from specdecode.benchmark.runner import Benchmark
from specdecode.experiment.benchmark_spec import BenchmarkSpec

EXIT_OK, EXIT_FAILED, EXIT_BAD_INPUT = 0, 1, 2


def launch(
    spec: BenchmarkSpec, endpoints: Mapping[str, Endpoint], options: Options, *, max_error_rate: float
) -> tuple[int, Outcome | str]:
    """Exit code (0 all measured, 1 an arm or too many requests failed, 2 bad input); outcome, or why there is none.

    SIGINT and SIGTERM stop the load. Everything that was measured is kept either way.
    """
    with progress_for() as progress:
        try:
            outcome = asyncio.run(_until_signal(Benchmark(spec, endpoints, options, progress)))
        except asyncio.CancelledError:
            progress.message(stopped := f"stopped; what was measured is in {options.folder}")
            return EXIT_FAILED, stopped
        except Exception as error:
            cause = error
            while isinstance(cause, ExceptionGroup):  # of the tasks of a load
                cause = cause.exceptions[0]
            if not isinstance(cause, BadPrompts | BadResults | ArmNotReady | NotTogether):
                raise
            progress.message(f"error: {cause}")
            return EXIT_BAD_INPUT if isinstance(cause, BadPrompts | BadResults) else EXIT_FAILED, str(cause)
        failures = [*failed_beyond(outcome, max_error_rate), *outcome.problems]
        for failure in failures:
            progress.message(f"error: {failure}")
        return (EXIT_FAILED if failures else EXIT_OK), outcome


async def _until_signal(benchmark: Benchmark) -> Outcome:
    running = asyncio.ensure_future(benchmark.run())
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, running.cancel)
    return await running
