"""The instances that EC2 would bill. They run until they are terminated, even if their objects are gone."""

import random
import secrets
from dataclasses import dataclass

from rehearsal.kubernetes import queries
from rehearsal.kubernetes.faults import Faults
from rehearsal.kubernetes.karpenter import names
from rehearsal.kubernetes.karpenter.ec2 import Ec2
from rehearsal.kubernetes.karpenter.shapes import labels_of_type
from rehearsal.kubernetes.nodes import INSTANCE_TYPES
from rehearsal.kubernetes.objects import Json, dig, labels_of, name_of, now, uid_of


class InsufficientCapacity(Exception):
    """There is no capacity for the wanted instance."""


@dataclass
class Ec2Instance:
    """An instance that was launched, and when it ended."""

    instance_id: str
    instance_type: str
    zone: str
    capacity_type: str
    node_claim: str
    launched: str
    terminated: str = ""

    @property
    def provider_id(self) -> str:
        return f"aws:///{self.zone}/{self.instance_id}"


class Cloud:
    """EC2 as Karpenter sees it."""

    def __init__(self, *, region: str, faults: Faults) -> None:
        self.region = region
        self._faults = faults
        self.instances: dict[str, Ec2Instance] = {}
        self.ec2: Ec2 | None = None
        """The EC2 in which instances are launched. Without it they are records only."""

    def fitting_types(self, requirements: list[Json]) -> list[str]:
        """Known instance types that meet the requirements, smallest first."""
        return [name for name in _BY_SIZE if _meets(requirements, labels_of_type(name))]

    def launch(self, claim: Json, node_class: Json, *, has_price: bool) -> Ec2Instance | None:
        """The instance; None while EC2 has not answered. Raises InsufficientCapacity if there is no capacity, and
        Refused if EC2 does not launch it.
        """
        requirements = claim["spec"]["requirements"]
        types = self.fitting_types(requirements)
        if not types:
            known = ", ".join(INSTANCE_TYPES)
            raise InsufficientCapacity(f"no instance type met all requirements (the rehearsal knows {known})")
        kind, capacity = types[0], _capacity_type(requirements, node_class)
        if self._faults.no_capacity:
            raise InsufficientCapacity(
                "creating instance, insufficient capacity, with fleet error(s), InsufficientInstanceCapacity: "
                f"We currently do not have sufficient {kind} capacity in the Availability Zone you requested."
            )
        if capacity != "reserved" and self._faults.no_published_price and not has_price:
            raise InsufficientCapacity(
                "creating instance, insufficient capacity, all requested instance types were unavailable during launch"
            )
        identity: str | None = f"i-{secrets.token_hex(8)}"
        if self.ec2 is not None:
            pool = labels_of(claim)[names.NODE_POOL]
            identity = self.ec2.launch(uid_of(claim), instance_type=kind, pool=pool, node_class=name_of(node_class))
        if identity is None:
            return None
        instance = Ec2Instance(
            instance_id=identity,
            instance_type=kind,
            zone=self._zone(requirements),
            capacity_type=capacity,
            node_claim=claim["metadata"]["name"],
            launched=now(),
        )
        self.instances[instance.instance_id] = instance
        return instance

    def _zone(self, requirements: list[Json]) -> str:
        """The zone's name. In this account the first id of the region is zone a, as in the emulator's EC2."""
        for requirement in requirements:
            if requirement["operator"] == "In" and requirement["key"] == names.ZONE:
                return str(requirement["values"][0])
            if requirement["operator"] == "In" and requirement["key"] == names.ZONE_ID:
                return f"{self.region}{_LETTERS[int(requirement['values'][0].rpartition('-az')[2]) - 1]}"
        return f"{self.region}{random.choice('abc')}"

    def give_up(self, claim: Json) -> bool:
        """End what is being launched for a claim that was deleted. False until EC2 answers: Karpenter, too, works on a
        NodeClaim one call after the other.
        """
        return self.ec2 is None or self.ec2.give_up(uid_of(claim))

    def terminate(self, provider_id: str) -> None:
        instance = self.instances.get(provider_id.rsplit("/", 1)[-1])
        if instance is not None and not instance.terminated:
            instance.terminated = now()
            if self.ec2 is not None:
                self.ec2.terminate(instance.instance_id)

    def has_ended(self, provider_id: str) -> bool:
        """Whether someone other than Karpenter has ended the instance."""
        identity = provider_id.rsplit("/", 1)[-1]
        if self.ec2 is None or identity not in self.ec2.gone:
            return False
        self.instances[identity].terminated = self.instances[identity].terminated or now()
        return True


_LETTERS = "abcdef"
_BY_SIZE = sorted(INSTANCE_TYPES, key=lambda name: int(INSTANCE_TYPES[name]["vcpu"]))


_TYPE_LABELS = {key for name in INSTANCE_TYPES for key in labels_of_type(name)}


def _meets(requirements: list[Json], labels: dict[str, str]) -> bool:
    return all(_holds(requirement, labels) for requirement in requirements if requirement["key"] in _TYPE_LABELS)


def _holds(requirement: Json, labels: dict[str, str]) -> bool:
    if requirement["operator"] in ("Gte", "Lte") and requirement["key"] not in labels:
        return False
    if requirement["operator"] in ("Gte", "Lte"):
        actual, bound = int(labels[requirement["key"]]), int(requirement["values"][0])
        return actual >= bound if requirement["operator"] == "Gte" else actual <= bound
    return queries.requirement_holds(requirement, labels)


def _capacity_type(requirements: list[Json], node_class: Json) -> str:
    """The capacity type to launch: reserved before spot before on-demand, as in Karpenter."""
    wanted = next((r["values"] for r in requirements if r["key"] == names.CAPACITY_TYPE), ["on-demand"])
    if "reserved" in wanted and dig(node_class, "spec", "capacityReservationSelectorTerms"):
        return "reserved"
    others = [kind for kind in ("spot", "on-demand") if kind in wanted]
    if not others:
        raise InsufficientCapacity(
            "creating instance, insufficient capacity, no reserved offerings: the EC2NodeClass selects no reservation"
        )
    return others[0]
