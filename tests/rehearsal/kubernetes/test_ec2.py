"""EC2's answers come later than what happens to a NodeClaim meanwhile."""

import asyncio
import itertools
import queue
import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rehearsal.kubernetes import resources as r
from rehearsal.kubernetes.faults import Faults
from rehearsal.kubernetes.karpenter.cloud import Cloud
from rehearsal.kubernetes.karpenter.ec2 import Ec2
from rehearsal.kubernetes.karpenter.node_claims import NodeClaims
from rehearsal.kubernetes.karpenter.pools import create_claim
from rehearsal.kubernetes.machinery import Cluster
from rehearsal.kubernetes.objects import name_of
from tests.patience import PATIENCE_S
from tests.rehearsal.kubernetes.manifests import NODE_CLASS, static_pool

INSTALLED: Any = SimpleNamespace(karpenter_runs=lambda: True, subscribe=lambda wake: None, gate=lambda name: False)


class Waiting(Ec2):
    """It answers when `answers` is set."""

    def __init__(self) -> None:
        self.answered, self.ended = asyncio.Event(), asyncio.Event()
        self.asked, self.answers = threading.Event(), threading.Event()
        super().__init__(
            endpoint="", region="us-east-2", cluster_name="c", credentials=lambda: ("", ""), changed=self.answered.set
        )

    def _run(self, instance_type: str, tags: dict[str, str]) -> str:
        self.asked.set()
        assert self.answers.wait(PATIENCE_S)
        return "i-1"

    def terminate(self, identity: str) -> None:
        assert identity == "i-1"
        self.ended.set()


def test_an_instance_whose_claim_is_deleted_while_it_is_launched_is_ended() -> None:
    """Karpenter launches and ends in turns of one queue, in which a NodeClaim is at most once (Reconcile() and
    finalize() in pkg/controllers/nodeclaim/lifecycle/controller.go of kubernetes-sigs/karpenter).
    """

    async def play() -> None:
        cluster, faults, ec2 = Cluster(), Faults(), Waiting()
        cloud, network = Cloud(region="us-east-2", faults=faults), cast(Any, None)
        cloud.ec2 = ec2
        claims = NodeClaims(cluster, installed=INSTALLED, cloud=cloud, faults=faults, network=network, delay=0.0)
        cluster.create(r.NODE_CLASSES, NODE_CLASS)
        claim = create_claim(cluster, cluster.create(r.NODE_POOLS, static_pool()))
        while not ec2.asked.is_set():
            claims.reconcile()
            await asyncio.sleep(0.01)
        cluster.delete(r.NODE_CLAIMS, "", name_of(claim))
        for _ in range(3):
            claims.reconcile()
        left = [name_of(each) for each in cluster.store.list(r.NODE_CLAIMS)]
        ec2.answers.set()
        assert left == [name_of(claim)]
        await ec2.answered.wait()
        claims.reconcile()
        assert ec2.ended.is_set() and not cluster.store.list(r.NODE_CLAIMS)

    asyncio.run(asyncio.wait_for(play(), PATIENCE_S))


class Asked(Ec2):
    """It launches i-1, i-2 and so on at once. What is still there it says when `answer` has it."""

    def __init__(self) -> None:
        self.asked: queue.Queue[list[str]] = queue.Queue()
        self.answer: queue.Queue[set[str]] = queue.Queue()
        self.launched = itertools.count(1)
        super().__init__(
            endpoint="", region="us-east-2", cluster_name="c", credentials=lambda: ("", ""), changed=lambda: None
        )

    def _run(self, instance_type: str, tags: dict[str, str]) -> str:
        return f"i-{next(self.launched)}"

    def _running(self, identities: list[str]) -> set[str]:
        self.asked.put(identities)
        return self.answer.get(timeout=PATIENCE_S)


def test_an_instance_launched_while_ec2_says_which_are_there_has_not_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rehearsal.kubernetes.karpenter.ec2.POLL_S", 0.0)

    async def launched(ec2: Ec2, key: str) -> None:
        while ec2.launch(key, instance_type="trn2.48xlarge", pool="trn2", node_class="trn2") is None:
            await asyncio.sleep(0.01)

    async def asked(ec2: Asked) -> list[str]:
        return await asyncio.to_thread(ec2.asked.get, timeout=PATIENCE_S)

    async def play() -> None:
        ec2 = Asked()
        await launched(ec2, "a")
        assert await asked(ec2) == ["i-1"]
        await launched(ec2, "b")
        ec2.answer.put({"i-1"})
        assert await asked(ec2) == ["i-1", "i-2"]
        assert ec2.gone == set()
        ec2.answer.put({"i-1"})
        assert await asked(ec2) == ["i-1"]
        assert ec2.gone == {"i-2"}
        ec2.answer.put(set())

    asyncio.run(asyncio.wait_for(play(), PATIENCE_S))
