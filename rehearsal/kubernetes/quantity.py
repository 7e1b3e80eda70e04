"""Kubernetes quantities: `500m`, `1Gi`, `1e3`."""

import re
from decimal import Decimal

_PATTERN = re.compile(
    r"^([+-]?(?:[0-9]{1,40}\.?[0-9]{0,40}|\.[0-9]{1,40}|(?=[numkMGTPEK])))(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?[0-9]{1,2}))?$"
)
_SUFFIX = {
    "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "k": Decimal(10**3), "M": Decimal(10**6),
    "G": Decimal(10**9), "T": Decimal(10**12), "P": Decimal(10**15), "E": Decimal(10**18),
    "Ki": Decimal(2**10), "Mi": Decimal(2**20), "Gi": Decimal(2**30), "Ti": Decimal(2**40), "Pi": Decimal(2**50),
    "Ei": Decimal(2**60),
}  # fmt: skip

Amounts = dict[str, Decimal]


def parse(text: str | int | float) -> Decimal:
    """The amount of a quantity. Raises ValueError if the text is no quantity or has too many digits."""
    found = _PATTERN.fullmatch(str(text))
    if not found:
        raise ValueError(f"quantities must match the regular expression '{_PATTERN.pattern}'")
    number, suffix, exponent = found.groups()
    amount = Decimal(number if number.strip("+-") else 0)
    if suffix:
        return amount * _SUFFIX[suffix]
    return amount.scaleb(int(exponent)) if exponent else amount


def add(left: Amounts, right: Amounts) -> Amounts:
    return {key: left.get(key, Decimal(0)) + right.get(key, Decimal(0)) for key in {*left, *right}}


def largest(left: Amounts, right: Amounts) -> Amounts:
    return {key: max(left.get(key, Decimal(0)), right.get(key, Decimal(0))) for key in {*left, *right}}


def amounts(resources: dict[str, str] | None) -> Amounts:
    return {key: parse(value) for key, value in (resources or {}).items()}
