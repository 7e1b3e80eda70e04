"""The CEL of device selectors."""

import pytest
from specdecode.experiment.claims import claim_template
from specdecode.experiment.shapes import TRN2

from constructs_lib.settings.fields import Settings
from constructs_lib.settings.neuron_amis import ENGINE_GENERATIONS, NEURON_AMIS
from rehearsal.kubernetes import cel
from rehearsal.kubernetes.controllers.slices import device

DRIVER = "neuron.aws.com"
ATTRIBUTES = {
    "instanceType": {"string": "trn2.48xlarge"},
    "deviceId": {"int": 3},
    "neuronDriverVersion": {"string": "2.25.4.0"},
    "draDriverVersion": {"version": "1.2.0"},
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
    (f"{N}.draDriverVersion.isLessThan(semver('1.3.0'))", True),
    (f"{N}.draDriverVersion.compareTo(semver('1.2.0')) == 0", True),
    (f"{N}.draDriverVersion.startsWith('1.')", False),
    (f"{N}.neuronDriverVersion == '2.25.4.0'", True),
    (f"{N}.neuronDriverVersion.isLessThan(semver('2.28.0'))", False),
    (f"{N}.instanceType.startsWith('trn2.') && {N}.instanceType.matches('^trn2')", True),
    (f"{N}.missing == 1", False),
    (f"{N}.deviceId == 3 ? {N}.deviceId : false", False),
    (f"{N}.deviceId == '3'", False),
]


@pytest.mark.parametrize(("expression", "expected"), HOLDS)
def test_expressions(expression: str, expected: bool) -> None:
    cel.check(expression)
    assert cel.holds(expression, DRIVER, ATTRIBUTES) is expected


@pytest.mark.parametrize(
    "expression",
    ["device.capacity['a'].b > 1", "x == 1", "1 +", "device.driver.split(':')", "size(device)", "a ++ b", "(true"],
)
def test_what_is_not_known_is_named(expression: str) -> None:
    with pytest.raises(cel.Unsupported, match="not supported"):
        cel.check(expression)


def test_the_driver_guard_matches_the_default_amis_driver_and_no_other() -> None:
    """The attribute's type is the driver's (aws-neuron-sdk, deploy/eks/dra.rst): text, compared as text."""
    attributes = device(0, "trn2.48xlarge")["attributes"]
    own = NEURON_AMIS[ENGINE_GENERATIONS[Settings().engine_generation].ami].driver

    def matches(version: str) -> bool:
        template = claim_template(8, shape=TRN2, driver=version, constraint="devicegroup")
        selectors = template["spec"]["spec"]["devices"]["requests"][0]["exactly"]["selectors"]
        expressions = [selector["cel"]["expression"] for selector in selectors]
        assert len(expressions) == 2
        for expression in expressions:
            cel.check(expression)
        return all(cel.holds(expression, DRIVER, attributes) for expression in expressions)

    drivers = {ami.driver for ami in NEURON_AMIS.values()}
    assert {driver for driver in drivers if matches(".".join(driver.split(".")[:2]))} == {own}
