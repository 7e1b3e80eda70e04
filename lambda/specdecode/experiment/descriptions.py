"""The docstrings of a model's fields. Python itself does not keep them."""

from __future__ import annotations

import ast
import inspect
import textwrap

from pydantic import BaseModel


def descriptions(model: type[BaseModel]) -> dict[str, str]:
    """Field -> its docstring on one line. Fields of base classes count too; fields without a docstring are left out."""
    found: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if issubclass(base, BaseModel) and base is not BaseModel:
            found |= _own(base)
    return found


def _own(model: type[BaseModel]) -> dict[str, str]:
    (source,) = ast.parse(textwrap.dedent(inspect.getsource(model))).body
    assert isinstance(source, ast.ClassDef)  # noqa: S101 - narrows the type
    found = {}
    for field, below in zip(source.body, source.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(below, ast.Expr)
            and isinstance(below.value, ast.Constant)
        ):
            found[field.target.id] = " ".join(str(below.value.value).split())
    return found
