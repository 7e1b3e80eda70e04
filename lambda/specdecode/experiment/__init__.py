"""The experiment: one validated, frozen object. Plan, manifests, benchmark and report are pure functions of it."""

from specdecode.assets import assets_dir, engine_names, preset_names
from specdecode.experiment.benchmark_spec import BenchmarkArm, BenchmarkSpec
from specdecode.experiment.capacity import Capacity
from specdecode.experiment.engine import Engine
from specdecode.experiment.files import (
    engine_of,
    from_document,
    load,
    load_engine,
    load_file,
    load_preset,
    parse_overrides,
    to_yaml,
)
from specdecode.experiment.model import Experiment
from specdecode.experiment.problems import ExperimentError, Problem

__all__ = [
    "BenchmarkArm", "BenchmarkSpec", "Capacity", "Engine", "Experiment", "ExperimentError", "Problem", "assets_dir",
    "engine_names", "engine_of", "from_document", "load", "load_engine", "load_file", "load_preset",
    "parse_overrides", "preset_names", "to_yaml",
]  # fmt: skip
