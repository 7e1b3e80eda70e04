"""Runs in the environment of real vLLM, not in ours: holds commands against the parser of the vLLM on PYTHONPATH.

Standard input: {name: arguments of `vllm serve`}. Standard output, last line: {name: why it is refused, or ""}, and the
version. An older vLLM runs beside newer libraries; no parser needs what the one that is absent computes.
"""

import contextlib
import dataclasses
import importlib
import importlib.abc
import importlib.machinery
import inspect
import io
import json
import sys
import types
import typing
from typing import Any
from unittest.mock import MagicMock


class Absent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds gguf, which older versions import and the newest does not bring, with any name in it."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        is_absent = name.partition(".")[0] == "gguf"
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if is_absent else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        module = types.ModuleType(spec.name)
        vars(module)["__getattr__"] = lambda name: MagicMock()
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        """Such a module has nothing to run."""


def first(*modules: str) -> Any:
    """The first of these modules that there is: vLLM has moved them."""
    for name in modules:
        with contextlib.suppress(ModuleNotFoundError):
            return importlib.import_module(name)
    raise ModuleNotFoundError(modules[0])


def main() -> None:
    sys.meta_path.append(Absent())
    config = importlib.import_module("transformers").AutoConfig
    register = config.register  # newer transformers have some configurations that older versions of vLLM bring
    config.register = staticmethod(lambda *given, **more: register(*given, **{**more, "exist_ok": True}))
    flexible = first("vllm.utils.argparse_utils", "vllm.utils").FlexibleArgumentParser
    cli = first("vllm.entrypoints.launchers.cli_args", "vllm.entrypoints.openai.cli_args")
    parser = cli.make_arg_parser(flexible())
    if not any(action.dest == "model_tag" for action in parser._actions):
        parser.add_argument("model_tag", nargs="?")  # 0.9.1 leaves it to the command `serve` itself
    told = {name: refusal(parser, cli, words) for name, words in json.load(sys.stdin).items()}
    told["version"] = str(importlib.import_module("vllm.version").__version__)
    print(json.dumps(told))


def refusal(parser: Any, cli: Any, words: list[str]) -> str:
    """Why vLLM does not take these words; empty if it does."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            parsed = parser.parse_args(words)
            cli.validate_parsed_serve_args(parsed)
            parsed.model = parsed.model_tag or parsed.model
            made = importlib.import_module("vllm.engine.arg_utils").AsyncEngineArgs.from_cli_args(parsed)
    except SystemExit:
        return said.getvalue().strip().splitlines()[-1]
    except Exception as error:  # whatever upstream raises is its refusal
        return f"{type(error).__name__}: {error}"
    given = made.speculative_config or {}
    speculative = importlib.import_module("vllm.config").SpeculativeConfig
    if unknown := set(given) - {field.name for field in dataclasses.fields(speculative)}:
        return f"SpeculativeConfig has no {', '.join(sorted(unknown))}"
    methods = words_of(typing.get_type_hints(speculative)["method"])
    if given and methods and given["method"] not in methods:
        return f"SpeculativeConfig has no method {given['method']}; it has {', '.join(sorted(methods))}"
    return built(made) if given else ""


def built(made: Any) -> str:
    """What vLLM makes of the speculation, if it is not what was asked for. It reads both models' config.json alone."""
    config = importlib.import_module("vllm.config")
    registry: Any = importlib.import_module("vllm.model_executor.models.registry")
    registry._run_in_subprocess = lambda function: function()  # another process has none of main()'s replacements
    made.override_neuron_config = {}  # of 0.9.1, which takes it on a node with devices alone
    known = {"enable_chunked_prefill": False, "disable_log_stats": True}  # of older versions
    try:
        known["target_model_config"] = made.create_model_config()
        known["target_parallel_config"] = config.ParallelConfig(tensor_parallel_size=made.tensor_parallel_size)
        wanted = inspect.signature(made.create_speculative_config).parameters
        found = made.create_speculative_config(**{key: known[key] for key in wanted if key in known})
    except Exception as error:
        return f"SpeculativeConfig: {type(error).__name__}: {error}"
    asked = (made.speculative_config["method"], made.speculative_config["num_speculative_tokens"])
    return "" if (found.method, found.num_speculative_tokens) == asked else f"built as {found!r}"


def words_of(hint: Any) -> set[str]:
    """The words of a type, however deep its Literals lie."""
    parts = typing.get_args(hint)
    deeper = (words_of(part) for part in parts if not isinstance(part, str))
    return {part for part in parts if isinstance(part, str)}.union(*deeper)


if __name__ == "__main__":
    main()
