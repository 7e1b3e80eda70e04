"""Settings that an experiment may have. An experiment is data: it chooses neither the code nor its connections."""

from __future__ import annotations

from collections.abc import Iterator

from specdecode.experiment import settable
from specdecode.experiment.engine import Dialect
from specdecode.experiment.rules import engine, native
from specdecode.experiment.rules.case import Finding, ServedCase


def variables(case: ServedCase) -> Iterator[Finding]:
    artifact = case.engine.artifact
    ours = {artifact.variable, *artifact.serve_env} if artifact else set()
    given = {"serving.env": case.experiment.serving.env}
    given |= {f"variants.{variant.name}.env": variant.env for variant in case.experiment.variants}
    for field, env in given.items():
        for name, value in env.items():
            problem = settable.variable_problem(name, value, case.engine.settable_env)
            if problem or name in ours:
                yield f"{field}.{name}", problem or f"{name} is ours", _fix(case)


def arguments(case: ServedCase) -> Iterator[Finding]:
    given = {"serving.extra_args": case.experiment.serving.extra_args}
    given |= {f"variants.{variant.name}.extra_args": variant.extra_args for variant in case.experiment.variants}
    for field, words in given.items():
        for problem in settable.argument_problems(words, case.engine.settable_args):
            yield field, problem, _fix(case)


def configuration(case: ServedCase) -> Iterator[Finding]:
    if case.engine.dialect is Dialect.UPSTREAM:  # it takes none: another rule says so
        return
    answered = native.MOVED if case.engine.dialect is Dialect.NATIVE_PLUGIN else engine.UNKNOWN  # by rules of their own
    known = (*case.engine.settable_config, *answered)
    configs = {"serving.neuron_config": case.experiment.serving.neuron_config}
    configs |= {f"variants.{v.name}.neuron_config": v.neuron_config for v in case.experiment.variants}
    for field, config in configs.items():
        for path, problem in settable.config_problems(config, known):
            yield f"{field}.{path}", problem, _fix(case)


def _fix(case: ServedCase) -> str:
    return f"leave it out (`specdecode engines {case.engine.name}` lists what is settable)"
