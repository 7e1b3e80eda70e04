"""amazon-eks-ami's changelog: every AMI release that is offered exists, and carries what we say."""

import pytest

from constructs_lib.settings.neuron_amis import DRA_KUBELET, NEURON_AMIS, REFUSED_AMIS, STAGING_AMI, version
from constructs_lib.settings.versions import ADDONS
from tests.upstream.changelog import NeuronVariant, neuron_variants, standard_releases
from tests.upstream.conftest import Upstream


@pytest.fixture
def released(upstream: Upstream) -> dict[str, dict[str, NeuronVariant]]:
    """Release -> Kubernetes minor -> its Neuron AMI."""
    return neuron_variants(upstream.text("eks-ami", "CHANGELOG.md"), ADDONS)


def test_every_neuron_ami_is_a_release(released: dict[str, dict[str, NeuronVariant]]) -> None:
    """Every Neuron AMI of the list is in the changelog, with its driver, kernel, Kubernetes minors and kubelets."""
    ours = {
        release: {
            minor: NeuronVariant(kubelet=kubelet, driver=ami.driver, kernel=ami.kernel)
            for minor, kubelet in ami.kubelet.items()
        }
        for release, ami in NEURON_AMIS.items()
    }
    assert ours == {release: released.get(release) for release in NEURON_AMIS}


def test_no_release_is_left_out(released: dict[str, dict[str, NeuronVariant]]) -> None:
    """Every release whose kubelet is new enough for the Neuron DRA driver is in the list, or refused by name."""
    fit = {
        release
        for release, minors in released.items()
        if minors and all(version(variant.kubelet) >= DRA_KUBELET for variant in minors.values())
    }
    assert fit - set(REFUSED_AMIS) == set(NEURON_AMIS)


def test_what_is_refused_by_name(released: dict[str, dict[str, NeuronVariant]]) -> None:
    """No release that is refused by name is one that the changelog has an AMI of."""
    assert [release for release in REFUSED_AMIS if released.get(release)] == []


def test_the_staging_ami_is_a_release(upstream: Upstream) -> None:
    """The staging nodes' AMI is a release with the standard variant for every Kubernetes minor."""
    assert standard_releases(upstream.text("eks-ami", "CHANGELOG.md"))[STAGING_AMI] >= set(ADDONS)
