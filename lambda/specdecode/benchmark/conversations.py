"""The conversations of a run: each case's answers so far; what is stored, what is unfinished, and what the user is
told.
"""

from collections.abc import Mapping, Sequence

from specdecode.benchmark.histories import Histories, file_of
from specdecode.benchmark.prompts import Prompt
from specdecode.benchmark.results import Results
from specdecode.experiment.benchmark_spec import BenchmarkSpec


class Conversations:
    """Histories of all cases. A case without conversations has a history that is not used."""

    def __init__(self, spec: BenchmarkSpec, results: Results, prompts: Mapping[str, Sequence[Prompt]]) -> None:
        """`prompts`: the measured prompts of each case. Raises BadResults if the stored answers
        are to other prompts.
        """
        self._spec, self._results, self._prompts = spec, results, prompts
        self._histories = {case: self._history(case, asked) for case, asked in prompts.items()}

    def of(self, case: str) -> Histories:
        """Answers so far in the case's conversations."""
        return self._histories[case]

    @property
    def unfinished(self) -> list[str]:
        """Cases whose first arm lacks an answer. That arm is loaded before the others."""
        return [case for case in talking(self._prompts) if not self._histories[case].complete(self._prompts[case])]

    def to_keep(self, case: str, variant: str) -> tuple[str, bytes] | None:
        """Name and content of the file to store after `variant` was loaded. None if it added nothing."""
        if case not in talking(self._prompts) or self._histories[case].variant != variant:
            return None
        return file_of(case), self._histories[case].document()

    def unasked(self) -> list[str]:
        """Turns that no arm is asked since an earlier answer failed: a sentence for each case."""
        found = []
        for case in talking(self._prompts):
            histories, prompts = self._histories[case], self._prompts[case]
            if missing := histories.unasked(prompts):
                found.append(
                    f"{case}: {missing} of {len(prompts)} turns are asked of no arm, as {histories.variant} gave no "
                    "answer to a turn before them."
                )
        return found

    def _history(self, case: str, prompts: Sequence[Prompt]) -> Histories:
        """The stored history, else one from the first arm's own records."""
        kept = self._results.read(file_of(case))
        if kept is not None:
            histories = Histories.kept(kept, name=file_of(case))
        else:
            histories = Histories(self._spec.arms[0].variant)
            for record in self._results.load(histories.variant, case):
                if record.round == self._spec.round and record.index < len(prompts):
                    histories.hear(record)
        histories.complete(prompts)  # raises where they are of other prompts
        return histories


def talking(prompts: Mapping[str, Sequence[Prompt]]) -> list[str]:
    """The cases with conversations."""
    return [case for case, asked in prompts.items() if any(prompt.turn for prompt in asked)]
