"""Watches: a stream of changes after a resource version, or after an initial list."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping

from aiohttp import web

from rehearsal.kubernetes import errors
from rehearsal.kubernetes.etcd import Change
from rehearsal.kubernetes.machinery import Cluster
from rehearsal.kubernetes.objects import Json, namespace_of
from rehearsal.kubernetes.requests import Target

_INITIAL_EVENTS_END = "k8s.io/initial-events-end"
_BOOKMARK_EVERY = 60.0


async def stream(
    request: web.Request, cluster: Cluster, target: Target, chosen: Callable[[Json], bool]
) -> web.StreamResponse:
    """Answer a watch request until the client leaves, its timeout passes, or the server stops."""
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    timeout = float(request.query.get("timeoutSeconds", 0)) or None
    try:
        async with asyncio.timeout(timeout):
            async for kind, obj in events(cluster, target, chosen, request.query):
                await response.write(json.dumps({"type": kind, "object": obj}).encode() + b"\n")
    except TimeoutError:
        pass
    except errors.ApiError as problem:
        await response.write(json.dumps({"type": "ERROR", "object": problem.status()}).encode() + b"\n")
    except (ConnectionResetError, ConnectionError):
        return response
    await response.write_eof()
    return response


async def events(
    cluster: Cluster, target: Target, chosen: Callable[[Json], bool], asked: Mapping[str, str]
) -> AsyncIterator[tuple[str, Json]]:
    """(type, object) of the changes for the client. An object that enters or leaves the selection is ADDED or
    DELETED.
    """
    queue: asyncio.Queue[Change] = asyncio.Queue()

    def concerns(obj: Json) -> bool:
        return (not target.namespace or namespace_of(obj) == target.namespace) and chosen(obj)

    def seen(change: Change) -> tuple[str, Json] | None:
        before = change.old is not None and concerns(change.old)
        after = change.type != "DELETED" and concerns(change.object)
        if before and after:
            return "MODIFIED", change.object
        if after:
            return "ADDED", change.object
        return ("DELETED", change.object) if before else None

    version = asked.get("resourceVersion", "")
    initial = version in ("", "0") or asked.get("sendInitialEvents") == "true"
    backlog = [] if initial else list(cluster.store.since(int(version)))
    objects = [obj for obj in cluster.store.list(target.resource, target.namespace) if chosen(obj)] if initial else []
    if target.name:
        objects = [obj for obj in objects if obj["metadata"]["name"] == target.name]
    at = cluster.store.version

    def listen(change: Change) -> None:
        if change.resource is target.resource:
            queue.put_nowait(change)

    unsubscribe = cluster.store.subscribe(listen)
    try:
        for obj in objects:
            yield "ADDED", obj
        if asked.get("sendInitialEvents") == "true":
            yield "BOOKMARK", _bookmark(target, at, {_INITIAL_EVENTS_END: "true"})
        for change in backlog:
            if change.resource is target.resource and (event := seen(change)):
                yield event
        while True:
            try:
                async with asyncio.timeout(_BOOKMARK_EVERY):  # wait_for may swallow a cancellation (Python 3.11)
                    change = await queue.get()
            except TimeoutError:
                if asked.get("allowWatchBookmarks") == "true":
                    yield "BOOKMARK", _bookmark(target, cluster.store.version, {})
                continue
            if event := seen(change):
                yield event
    finally:
        unsubscribe()


def _bookmark(target: Target, version: int, annotations: dict[str, str]) -> Json:
    metadata: Json = {"resourceVersion": str(version)}
    if annotations:
        metadata["annotations"] = annotations
    return {"kind": target.resource.kind, "apiVersion": target.resource.api_version, "metadata": metadata}
