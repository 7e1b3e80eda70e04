"""Lists in pages, and watches that break off, while thousands of objects come, change and go. No change is lost."""

import asyncio
import random
from collections import deque
from collections.abc import Awaitable
from types import SimpleNamespace
from typing import Any

import pytest

from rehearsal.kubernetes import resources as r
from rehearsal.kubernetes import watching
from rehearsal.kubernetes.errors import ApiError
from rehearsal.kubernetes.etcd import Store
from rehearsal.kubernetes.requests import Target
from rehearsal.kubernetes.verbs import Verbs

NAMES = [f"c{number:02}" for number in range(40)]
LIST = Target(resource=r.CONFIG_MAPS, namespace="n", name="", subresource="", verb="list")
Json = dict[str, Any]


def change(store: Store, rng: random.Random) -> None:
    """Create, change or remove one object, in this namespace or the next."""
    namespace, name = rng.choice(("n", "n", "n", "other")), rng.choice(NAMES)
    old = store.get(r.CONFIG_MAPS, namespace, name)
    if old is None:
        metadata = {"name": name, "namespace": namespace, "labels": {"in": rng.choice(("yes", "no"))}}
        store.create(r.CONFIG_MAPS, {"metadata": metadata})
    elif rng.random() < 0.4:
        store.remove(r.CONFIG_MAPS, namespace, name)
    else:
        labels = {"in": rng.choice(("yes", "no"))}
        store.replace(
            r.CONFIG_MAPS, {**old, "metadata": {**old["metadata"], "labels": labels}, "data": {"x": rng.random()}}
        )


def chosen(obj: Json) -> bool:
    return obj["metadata"]["labels"]["in"] == "yes"


def wanted(store: Store) -> dict[str, str]:
    found = [obj["metadata"] for obj in store.list(r.CONFIG_MAPS, "n") if chosen(obj)]
    return {meta["name"]: meta["resourceVersion"] for meta in found}


class Mirror:
    """A client that lists and watches. After a cut it goes on from the last version; after a 410 it lists again."""

    def __init__(self, store: Store) -> None:
        self.store, self.known, self.relists, self.version = store, dict[str, str](), 0, ""

    def relist(self) -> None:
        answer = Verbs(SimpleNamespace(store=self.store)).list(LIST, {"labelSelector": "in=yes"})
        self.known = {item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in answer["items"]}
        self.version, self.relists = answer["metadata"]["resourceVersion"], self.relists + 1

    @staticmethod
    async def at_once(event: Awaitable[tuple[str, Json]]) -> tuple[str, Json]:
        """The next event if it is there. Else TimeoutError: without new changes no other can come."""
        coming = asyncio.ensure_future(event)
        for _ in range(20):
            await asyncio.sleep(0)
            if coming.done():
                return coming.result()
        coming.cancel()
        await asyncio.wait([coming])
        raise TimeoutError

    async def watch(self, most: int) -> None:
        """Read up to `most` events. Each must fit the known state."""
        cluster: Any = SimpleNamespace(store=self.store)
        stream = watching.events(cluster, LIST, chosen, {"resourceVersion": self.version})
        try:
            for _ in range(most):
                kind, obj = await self.at_once(anext(stream))
                name, version = obj["metadata"]["name"], obj["metadata"]["resourceVersion"]
                assert int(version) > int(self.version), "an event came twice, or late"
                assert (name in self.known) == (kind != "ADDED"), "an event was lost"
                self.known.pop(name, None)
                if kind != "DELETED":
                    self.known[name] = version
                self.version = version
        except TimeoutError:
            return
        except ApiError as refused:
            assert refused.code == 410
            self.relist()
        finally:
            await stream.aclose()


@pytest.mark.parametrize("seed", range(5))
def test_a_client_that_is_cut_off_again_and_again_misses_and_repeats_nothing(seed: int) -> None:
    rng, store = random.Random(seed), Store()
    store._history = deque(maxlen=60)

    async def churn() -> Mirror:
        mirror = Mirror(store)
        mirror.relist()
        for _ in range(60):
            for _ in range(rng.choice((0, 5, 20, 90))):
                change(store, rng)
            watching = asyncio.create_task(mirror.watch(rng.choice((1, 10, 1000))))
            for _ in range(rng.choice((0, 10))):
                await asyncio.sleep(0)
                change(store, rng)
            await watching
        await mirror.watch(10_000)
        await mirror.watch(10_000)
        return mirror

    mirror = asyncio.run(churn())
    assert mirror.known == wanted(store)
    assert 1 < mirror.relists < 60


def test_a_quiet_watch_is_told_how_far_it_is_so_that_it_need_not_list_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "_BOOKMARK_EVERY", 0.01)
    rng, store = random.Random(3), Store()
    store._history = deque(maxlen=10)
    cluster: Any = SimpleNamespace(store=store)

    async def quiet() -> tuple[str, Json]:
        asked = {"resourceVersion": str(store.version), "allowWatchBookmarks": "true"}
        stream = watching.events(cluster, LIST, lambda obj: False, asked)
        following = asyncio.create_task(anext(stream))
        await asyncio.sleep(0)
        for _ in range(50):
            change(store, rng)
        return await following

    kind, obj = asyncio.run(quiet())
    assert (kind, obj["metadata"]["resourceVersion"]) == ("BOOKMARK", str(store.version))
    assert list(store.since(int(obj["metadata"]["resourceVersion"]))) == []


def test_a_watch_ends_at_its_timeout_though_changes_never_cease() -> None:
    """A cancellation that comes together with a change must not be swallowed."""
    rng, store = random.Random(4), Store()
    cluster: Any = SimpleNamespace(store=store)

    async def busy() -> int:
        stream = watching.events(cluster, LIST, lambda obj: True, {"resourceVersion": str(store.version)})
        ended = 0
        for _ in range(20):
            following = asyncio.create_task(anext(stream))
            for _ in range(rng.choice((2, 3, 4))):
                await asyncio.sleep(0)
            store.create(r.CONFIG_MAPS, {"metadata": {"name": f"c{store.version}", "namespace": "n", "labels": {}}})
            for _ in range(rng.choice((0, 1))):
                await asyncio.sleep(0)
            if following.cancel():
                ended += await asyncio.gather(following, return_exceptions=True) != []
                assert following.cancelled(), "the cancellation was swallowed"
                stream = watching.events(cluster, LIST, lambda obj: True, {"resourceVersion": str(store.version)})
        return ended

    assert asyncio.run(busy()) > 5


def test_pages_are_of_one_moment_whatever_changes_between_them() -> None:
    rng, store = random.Random(1), Store()
    verbs = Verbs(SimpleNamespace(store=store))
    for _ in range(300):
        change(store, rng)
    for query in ({}, {"labelSelector": "in=yes"}):
        expected = verbs.list(LIST, query)
        answer, items = verbs.list(LIST, {**query, "limit": "7"}), list[Json]()
        while True:
            items += answer["items"]
            assert answer["metadata"]["resourceVersion"] == expected["metadata"]["resourceVersion"]
            if "continue" not in answer["metadata"]:
                break
            for _ in range(25):
                change(store, rng)
            answer = verbs.list(LIST, {**query, "limit": "7", "continue": answer["metadata"]["continue"]})
        assert items == expected["items"]


def test_pages_of_a_moment_that_is_forgotten_are_refused() -> None:
    rng, store = random.Random(2), Store()
    store._history = deque(maxlen=60)
    verbs = Verbs(SimpleNamespace(store=store))
    for _ in range(100):
        change(store, rng)
    token = verbs.list(LIST, {"limit": "2"})["metadata"]["continue"]
    for _ in range(61):
        change(store, rng)
    with pytest.raises(ApiError) as refused:
        verbs.list(LIST, {"limit": "2", "continue": token})
    assert (refused.value.code, refused.value.reason) == (410, "Expired")
    with pytest.raises(ApiError, match="continue"):
        verbs.list(LIST, {"continue": "2"})
