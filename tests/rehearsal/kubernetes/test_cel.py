"""The CEL of device selectors."""

import pytest

from rehearsal.kubernetes import cel

DRIVER = "neuron.aws.com"
ATTRIBUTES = {
    "instanceType": {"string": "trn2.48xlarge"},
    "deviceId": {"int": 3},
    "neuronDriverVersion": {"version": "2.27.4"},
    "resource.aws.com/devicegroup8_id": {"string": "8-0"},
}
N = "device.attributes['neuron.aws.com']"

HOLDS = [
    (f"{N}.instanceType == 'trn2.48xlarge'", True),
    (f'{N}.instanceType != "trn2.48xlarge"', False),
    ("device.driver == 'neuron.aws.com'", True),
    ("device.attributes['resource.aws.com'].devicegroup8_id == '8-0'", True),
    (f"{N}.deviceId < 4 && {N}.deviceId >= 3", True),
    (f"{N}.deviceId in [1, 2] || {N}.deviceId == 3", True),
    (f"!({N}.deviceId == 3)", False),
    (f"{N}.neuronDriverVersion.isLessThan(semver('2.28.0'))", True),
    (f"{N}.neuronDriverVersion.compareTo(semver('2.27.4')) == 0", True),
    (f"{N}.instanceType.startsWith('trn2.') && {N}.instanceType.matches('^trn2')", True),
    (f"{N}.missing == 1", False),
]


@pytest.mark.parametrize(("expression", "expected"), HOLDS)
def test_expressions(expression: str, expected: bool) -> None:
    cel.check(expression)
    assert cel.holds(expression, DRIVER, ATTRIBUTES) is expected


@pytest.mark.parametrize(
    "expression", ["device.capacity['a'].b > 1", "x == 1", "1 +", f"{N}.deviceId ? 1 : 2", "a ++ b", "(true"]
)
def test_what_is_not_known_is_named(expression: str) -> None:
    with pytest.raises(cel.Unsupported, match="not supported"):
        cel.check(expression)
