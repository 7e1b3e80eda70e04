"""The experiment: one validated, frozen object. Plan, manifests, benchmark and report are pure functions of it.

There are two kinds: the run serves the arms on a node, or the arms are servers that already run.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Discriminator,
    Field,
    SerializerFunctionWrapHandler,
    StringConstraints,
    Tag,
    model_serializer,
)

from specdecode.experiment import endpoints, shapes
from specdecode.experiment.base import LONGEST_TITLE, Deadlines, Frozen, Name, Prose
from specdecode.experiment.told import MOST_FORECAST, Forecasted, Published
from specdecode.experiment.variants import TUNED, EndpointVariant, ModelRef, ServedVariant, Serving, Variant
from specdecode.experiment.workload import ImportedWorkload, Workload
from specdecode.names import RUN_ID


class CompileOn(StrEnum):
    """The kind of node that compiles missing artifacts."""

    ACCELERATOR = "accelerator"
    """The node on which the arms are measured, one model at a time. A server loads what it has compiled."""
    CPU = "cpu"
    """Large CPU nodes, before the run takes that node, several models side by side. Unproven on hardware."""


class Compile(Frozen):
    """Where the run compiles missing artifacts."""

    on: CompileOn = CompileOn.ACCELERATOR
    """`cpu` compiles on CPU nodes before the node is taken. An artifact that does not load is then compiled on the
    node, and the report says so. Unproven on hardware; `specdecode engines NAME` says which engine can."""


Arm = TypeVar("Arm", bound=Variant)


class Sweep(StrEnum):
    """Which of an experiment's arms are measured."""

    GRID = "grid"
    """All arms."""
    ADAPTIVE = "adaptive"
    """One arm after the other, beside the baseline: the advisor chooses each, until another is not worth its cost."""


class Experiment(Frozen):
    """One experiment: these arms under this load."""

    schema_version: Literal[1] = 1
    name: Name
    title: Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_TITLE)]
    description: Prose = ""
    node: Annotated[str, AfterValidator(shapes.known)] = shapes.DEFAULT
    """Instance type of the node that all arms are measured on."""
    target: ModelRef
    variants: tuple[Variant, ...] = Field(min_length=1)
    workload: Workload
    sweep: Sweep = Sweep.GRID
    """`grid` measures every arm; `adaptive` asks the advisor after each and stops when another gains too little."""
    compile: Compile = Compile()
    """Where missing artifacts are compiled."""
    deadlines: Deadlines = Deadlines()
    """Longest time of each waiting step."""
    published: tuple[Published, ...] = Field(default=(), max_length=10)
    """Figures that others published for this shape. The report shows them; they decide nothing."""
    forecast: tuple[Forecasted, ...] = Field(default=(), max_length=MOST_FORECAST)
    """What a forecast told of the drafts. An adaptive sweep starts from it; the report shows it beside the figures."""
    accuracy: bool = False
    """Also run lm-eval (gsm8k, 50 samples, as the public sample's pod intends) on every arm."""

    @property
    def holds_node(self) -> bool:
        """Whether the run holds a node, on which it serves the arms."""
        return self.served_by is not None

    @property
    def holds_arms(self) -> int:
        """Minutes for which arms stay after they are measured."""
        return 0

    @property
    def on_node(self) -> tuple[Variant, ...]:
        """The arms that the run serves."""
        return self.variants

    @property
    def served_by(self) -> str | None:
        """Name of the engine that serves the arms. None here and below: only the owner of a server knows more."""
        return None

    @property
    def images_of(self) -> str:
        """Name of the engine whose images the run's pods use."""
        return self.served_by or endpoints.TOOLS_ENGINE

    def serving_of(self, variant: Variant) -> Serving | None:
        """Settings that the arm is served with. None if its server ran already."""
        return None

    def batch_of(self, variant: Variant) -> int | None:
        """Sequences that the arm decodes together. None if not known."""
        serving = self.serving_of(variant)
        return serving.max_num_seqs if serving else None

    @property
    def _served(self) -> list[Serving]:
        """Settings of each arm that the run serves."""
        return [serving for each in self.variants if (serving := self.serving_of(each))]

    @property
    def batch(self) -> int | None:
        """Of the arm that decodes fewest sequences together. None if not known."""
        return min((serving.max_num_seqs for serving in self._served), default=None)

    @property
    def window(self) -> int | None:
        """Tokens that the longest prompt and its answer may have together in every arm. None if not known."""
        return min((serving.max_model_len for serving in self._served), default=None)

    def served_in_words(self, setting: str) -> str:
        """`4`; `1, 2, 4` if the arms differ. Empty if their servers ran already."""
        return ", ".join(map(str, sorted({getattr(serving, setting) for serving in self._served})))

    def setting_of(self, variant: Variant) -> dict[str, int]:
        """What the arm is served with, of the settings in which the arms differ. Empty if all are served alike."""
        own, served = self.serving_of(variant), self._served
        return {name: getattr(own, name) for name in TUNED if len({getattr(each, name) for each in served}) > 1}

    def setting_in_words(self, variant: Variant) -> str:
        """`max_num_seqs=4`. Empty if all arms are served alike."""
        return ", ".join(f"{name}={value}" for name, value in self.setting_of(variant).items())

    @property
    def devices(self) -> int:
        """Neuron devices that an arm claims on the node."""
        return 0

    @property
    def staged(self) -> tuple[ModelRef, ...]:
        """Weights that must lie in the bucket, each once, in the order of first use."""
        return ()

    @property
    def readers(self) -> tuple[ServedVariant, ...]:
        """Arms that are not loaded: drafts that read the answers of another arm."""
        return ()

    def as_measured(self, told: Sequence[Forecasted] = ()) -> Self:
        """The experiment as its report has it: with what its readers `told`, and without them."""
        if not self.readers:
            return self
        kept = tuple(variant for variant in self.variants if variant not in self.readers)
        return self.model_copy(update={"variants": kept, "forecast": tuple(told) or self.forecast})

    @property
    def side_by_side(self) -> int:
        """How many arms can be loaded at a time: all that wait for no device."""
        return len(self.variants)

    @property
    def shape(self) -> shapes.NodeShape:
        """The instance type of the node, with its sizes."""
        return shapes.SHAPES[self.node]

    @property
    def rounds(self) -> int:
        """`workload.rounds`, or its default."""
        return self.workload.rounds or 1

    def variant(self, name: str) -> Variant:
        """The variant called `name`; KeyError if there is none."""
        return named(name, self.variants)

    def target_of(self, variant: Variant) -> ModelRef:
        """The weights that `variant` serves."""
        return variant.target or self.target

    def models_of(self, variant: Variant) -> tuple[ModelRef, ...]:
        """All weights of `variant`: target first, then the draft."""
        draft = (variant.speculation.draft,) if variant.speculation else ()
        return (self.target_of(variant), *draft)


def named(name: str, variants: Sequence[Arm]) -> Arm:
    """The variant called `name`; KeyError if there is none."""
    return {variant.name: variant for variant in variants}[name]


class ServedExperiment(Experiment):
    """Its arms are compiled and served on a node that the run holds."""

    engine: str
    """Name of an engine in assets/engines."""
    serving: Serving
    start_check: bool = True
    """Start each kind of arm that this bucket never served once with a tiny model, before anything is compiled."""
    hold: int = Field(default=0, ge=0, le=480)
    """Minutes for which an arm stays on the node after its last benchmark, and answers `specdecode ask`. They cost."""
    answers: Annotated[str, StringConstraints(pattern=f"^{RUN_ID}$")] | None = None
    """An earlier run of this target. The arms that read then read its answers, and no other arm is served."""
    variants: tuple[ServedVariant, ...] = Field(min_length=1)

    @property
    def holds_arms(self) -> int:
        return self.hold

    @property
    def on_node(self) -> tuple[ServedVariant, ...]:
        return (self.answers and self.readers) or self.variants

    @property
    def served_by(self) -> str:
        return self.engine

    def serving_of(self, variant: Variant) -> Serving:
        own = {name: value for name in TUNED if (value := getattr(variant, name)) is not None}
        return self.serving.model_copy(update=own)

    @property
    def ranks(self) -> int:
        """Of the arm with most."""
        return max(self.serving_of(each).tensor_parallel_size for each in self.variants)

    @property
    def devices(self) -> int:
        return self.serving.devices

    @property
    def staged(self) -> tuple[ModelRef, ...]:
        return tuple({model.prefix: model for arm in self.on_node for model in self.models_of(arm)}.values())

    @property
    def readers(self) -> tuple[ServedVariant, ...]:
        return tuple(variant for variant in self.variants if variant.reads)

    @property
    def side_by_side(self) -> int:
        """As many as the node has devices for."""
        if not self.serving.devices:
            return len(self.on_node)
        return max(1, self.shape.devices // self.serving.devices)

    @property
    def rounds(self) -> int:
        """`workload.rounds`, or its default: 2 if arms sit on different device groups of the node. An adaptive sweep
        measures its best arms again, and swaps the groups then: 1 is enough.
        """
        if self.workload.rounds is not None:
            return self.workload.rounds
        alone = not self.serving.devices or min(self.side_by_side, len(self.variants)) == 1
        return 1 if alone or self.sweep is Sweep.ADAPTIVE else 2

    def variant(self, name: str) -> ServedVariant:
        return named(name, self.variants)

    def weights_gib(self, variant: Variant) -> float:
        """GiB of all weights that `variant` needs."""
        return sum(model.size_gib for model in self.models_of(variant))


def answers_of(experiment: Experiment) -> str | None:
    """The run that has the answers which the experiment's drafts read (ADR 212). None if the run itself writes them."""
    return experiment.answers if isinstance(experiment, ServedExperiment) else None


def answered(experiment: Experiment) -> tuple[Variant, ...]:
    """The arms whose answers that run has."""
    read = {variant.reads for variant in experiment.readers} if answers_of(experiment) else ()
    return tuple(variant for variant in experiment.variants if variant.name in read)


def arms_measured(experiment: Experiment) -> tuple[Variant, ...]:
    """The arms of a report that its run measures."""
    return () if answers_of(experiment) else experiment.variants


class EndpointExperiment(Experiment):
    """Its arms are servers that already run: nothing is compiled, served or held for them."""

    variants: tuple[EndpointVariant, ...] = Field(min_length=1)

    def variant(self, name: str) -> EndpointVariant:
        return named(name, self.variants)


class ImportedExperiment(Experiment):
    """Its arms were measured by another tool. Only what its files say, or the user, is set and written."""

    measured_with: tuple[str, ...] = Field(min_length=1)
    """Names of the tools."""
    recorded: dict[str, dict[str, str]] = Field(default_factory=dict)
    """Arm -> what its tool recorded of the load."""
    workload: ImportedWorkload

    @model_serializer(mode="wrap")
    def _only_what_is_known(self, handler: SerializerFunctionWrapHandler) -> Any:
        return endpoints.written(_known(self, handler(self)))


def _known(value: Any, written: Any) -> Any:
    """`written` without the fields of `value` that nobody set."""
    if isinstance(value, BaseModel) and isinstance(written, dict):
        return {key: _known(getattr(value, key), own) for key, own in written.items() if key in value.model_fields_set}
    if isinstance(value, tuple) and isinstance(written, list | tuple):
        return type(written)(map(_known, value, written))
    return written


def _kind(value: Any) -> str | None:
    """Tag of the class of a plain document or an experiment. None if it is neither."""
    if not isinstance(value, dict | ServedExperiment | EndpointExperiment | ImportedExperiment):
        return None
    if endpoints.IMPORTED in value if isinstance(value, dict) else isinstance(value, ImportedExperiment):
        return "imported"
    served = not endpoints.has_endpoints(value) if isinstance(value, dict) else value.holds_node
    return "served" if served else "endpoints"


def _as_now(value: Any) -> Any:
    """Drop the fields of the other kind: plans and reports of older versions have the fields of both."""
    return endpoints.of_one_kind(value) if isinstance(value, dict) else value


_Served = Annotated[ServedExperiment, Tag("served")]
_Endpoints = Annotated[EndpointExperiment, Tag("endpoints")]
AnyExperiment = Annotated[_Served | _Endpoints, Discriminator(_kind), BeforeValidator(_as_now)]
"""An experiment of either kind that can run. `endpoint` in the variants tells which kind."""
MeasuredExperiment = Annotated[
    _Served | _Endpoints | Annotated[ImportedExperiment, Tag("imported")],
    Discriminator(_kind),
    BeforeValidator(_as_now),
]
"""An experiment of any kind, as reports hold it."""
