"""docs/reference/engines.md: which engine has which method for which model family, and until when it is supported."""

from specdecode.experiment import Engine, engine_names, load_engine
from specdecode.experiment.engine_parts import CpuCompile
from specdecode.experiment.variants import Method

from tools.reference import page, table

INTRODUCTION = """\
From the files in `assets/engines`, those of rehearsals left out; `specdecode engines NAME` says the same of one, with
all that an experiment may set, and why it lacks a method. What a cell does not list is refused before anything is
created. `yes`: model code and image have the method; nothing here was run by us on Trainium."""

COMPILING = """\
## Compiling without the accelerator

What `compile.on: cpu` takes, of engines that compile ([how](../how-to/compile-on-cpu-nodes.md)). Read in these
sources, not seen by us."""

INFERRED = """\
## Inferred

What of an engine's file nobody has read in the image's own source. A run keeps what was really used (`used/` in its
folder): the settings with which NxD Inference compiled an arm, and the configuration that vLLM says when it starts. Its
report names each setting that is not the assumed one."""


def render() -> str:
    engines = [engine for name in engine_names() if not (engine := load_engine(name)).name.startswith("rehearsal")]
    families = sorted({family for engine in engines for family in engine.model_families})
    methods = list(Method)
    rows = [
        (f"`{engine.name}`", family, *(_cell(engine, method, family) for method in methods), _formats(engine, family))
        for engine in engines
        for family in families
        if family in engine.model_families
    ]
    support = [
        (f"`{e.name}`", e.title, e.runtime.amis, s.ends if (s := e.support) else "-", f"`{s.successor}`" if s else "-")
        for e in engines
    ]
    sources: dict[tuple[str, str], list[str]] = {}
    for e in engines:
        if e.artifact is not None:
            can = e.artifact.on_cpu
            sources.setdefault((_without_devices(can), can.source if can else "-"), []).append(f"`{e.name}`")
    return page(
        "Engines",
        INTRODUCTION,
        table(("engine", "family", *map(str, methods), "weights"), rows),
        "## Images and support",
        table(("engine", "what it is", "AMI", "support ends with", "successor"), support),
        COMPILING,
        table(
            ("engine", "without devices", "source"),
            [(", ".join(named), *told) for told, named in sources.items()],
        ),
        INFERRED,
        table(
            ("engine", "what", "where it comes from"),
            [(f"`{e.name}`", what, where) for e in engines for what, where in e.inferred.items()],
        ),
    )


def _without_devices(can: CpuCompile | None) -> str:
    return "no source" if can is None else "all arms" if can.speculation else "arms without speculation"


def _cell(engine: Engine, method: Method, family: str) -> str:
    support = engine.methods.get(method)
    if support is None or (support.families is not None and family not in support.families):
        return "-"
    return f"k = {', '.join(map(str, support.tokens))}" if support.tokens else "yes"


def _formats(engine: Engine, family: str) -> str:
    own = engine.families[family].quantizations if family in engine.families else None
    return ", ".join(engine.quantizations if own is None else own)
