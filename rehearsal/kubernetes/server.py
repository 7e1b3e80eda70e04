"""The HTTPS front: authentication, faults, authorization, then discovery, verbs, watches and logs."""

import json
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from aiohttp import web

from rehearsal.kubernetes import discovery, errors, printed_tables, queries, rbac, requests, watching
from rehearsal.kubernetes.bodies import decode, delete_options
from rehearsal.kubernetes.faults import CutOff, Faults
from rehearsal.kubernetes.identity import Authenticator, User, impersonated
from rehearsal.kubernetes.machinery import Cluster
from rehearsal.kubernetes.objects import Json
from rehearsal.kubernetes.requests import Target
from rehearsal.kubernetes.verbs import APPLY, Verbs

_OPEN_PATHS = ("/healthz", "/livez", "/readyz", "/version")
_PROTOBUF = "application/vnd.kubernetes.protobuf"
Control = Callable[[str, Json], Awaitable[Json]]


class LogSource(Protocol):
    def logs(self, pod: Json, query: Mapping[str, str]) -> AsyncIterator[bytes]: ...


class ApiServer:
    """One aiohttp handler for every path."""

    def __init__(
        self, *, cluster: Cluster, authenticator: Authenticator, faults: Faults, logs: LogSource, control: Control
    ) -> None:
        self._cluster = cluster
        self._verbs = Verbs(cluster)
        self._authenticator = authenticator
        self._faults = faults
        self._logs = logs
        self._control = control

    def application(self) -> web.Application:
        app = web.Application(client_max_size=8 * 1024 * 1024)
        app.router.add_route("*", "/{path:.*}", self._handle)
        return app

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        try:
            return await self._answer(request)
        except errors.ApiError as problem:
            return web.json_response(problem.status(), status=problem.code, headers=problem.headers)
        except CutOff:
            return web.Response()
        except Exception as problem:
            traceback.print_exc()
            status = errors.ApiError(500, "InternalError", f"Internal error occurred: {problem!r}").status()
            return web.json_response(status, status=500)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        path = request.path
        if path in _OPEN_PATHS:
            return web.json_response(discovery.VERSION) if path == "/version" else web.Response(text="ok")
        user = await self._authenticator.user(request.headers.get("Authorization", ""))
        asked = request.headers
        user = impersonated(user, asked.get("Impersonate-User", ""), asked.getall("Impersonate-Group", []))
        if path.startswith("/_rehearsal/"):
            if "system:masters" not in user.groups:
                raise errors.ApiError(403, "Forbidden", "the control API takes the admin token only")
            body = decode(await request.read()) if request.can_read_body else {}
            return web.json_response(await self._control(path.removeprefix("/_rehearsal/"), body))
        self._faults.api_request(request)
        if request.headers.get("Content-Type", "").startswith(_PROTOBUF):
            message = "the body of the request was in an unknown format - accepted media types include: "
            raise errors.unsupported_media_type(message + "application/json, application/yaml")
        review = requests.review_of(path)
        if review and request.method == "POST":
            return web.json_response(
                rbac.review(self._cluster.store, user, review, decode(await request.read())), status=201
            )
        watch = queries.flag(request.query, "watch")
        target = requests.parse(self._cluster.registry, request.method, path, watch=watch)
        if target is None:
            self._authorize(user, rbac.AccessRequest(verb=request.method.lower(), path=path))
            return self._discover(request)
        for access in self._accesses(request, target):
            if not rbac.allowed(self._cluster.store, user, access):
                raise errors.forbidden(target.resource, target.name, rbac.refusal(user, access))
        return await self._serve(request, target)

    def _accesses(self, request: web.Request, target: Target) -> list[rbac.AccessRequest]:
        """The access that the request needs: its verb, and also `create` for an apply of an object that does not
        exist.
        """
        access = target.access()
        applies = target.verb == "patch" and _content_type(request) == APPLY and not target.subresource
        if applies and self._cluster.store.get(target.resource, target.namespace, target.name) is None:
            return [access, replace(access, verb="create")]
        return [access]

    def _authorize(self, user: User, access: rbac.AccessRequest) -> None:
        if not rbac.allowed(self._cluster.store, user, access):
            raise errors.ApiError(403, "Forbidden", f"forbidden: {rbac.refusal(user, access)}", {})

    def _discover(self, request: web.Request) -> web.Response:
        registry, path = self._cluster.registry, request.path.rstrip("/")
        aggregated = discovery.AGGREGATED in request.headers.get("Accept", "").replace(" ", "")
        parts = path.strip("/").split("/")
        document: Json | None = None
        if path in ("/api", "/apis") and aggregated:
            document = discovery.aggregated(registry, core=path == "/api")
            return web.Response(text=json.dumps(document), headers={"Content-Type": discovery.AGGREGATED})
        if path == "/openapi/v2":
            return web.Response(body=discovery.OPENAPI_V2, content_type="application/octet-stream")
        if path == "/api":
            document = discovery.core_versions()
        elif path == "/apis":
            document = discovery.group_list(registry)
        elif path == "/openapi/v3":
            document = discovery.openapi_index(registry)
        elif path.startswith("/openapi/v3/"):
            document = discovery.openapi(registry, path.removeprefix("/openapi/v3/"))
        elif parts[0] == "api" and len(parts) == 2:
            document = discovery.resource_list(registry, "", parts[1])
        elif parts[0] == "apis" and len(parts) == 3:
            document = discovery.resource_list(registry, parts[1], parts[2])
        elif parts[0] == "apis" and len(parts) == 2:
            document = discovery.group(registry, parts[1])
        if document is None:
            raise errors.no_such_path()
        return web.json_response(document)

    async def _serve(self, request: web.Request, target: Target) -> web.StreamResponse:
        query = request.query
        manager = query.get("fieldManager") or request.headers.get("User-Agent", "unknown").split("/")[0]
        match target.verb:
            case "watch":
                plural = target.resource.plural
                chosen = queries.object_selector(plural, query.get("labelSelector", ""), _fields(target, query))
                for name in ("timeoutSeconds", "resourceVersion"):
                    queries.number(query, name)
                return await watching.stream(request, self._cluster, target, chosen)
            case "get" if target.subresource == "log":
                return await self._log(request, target)
            case "get":
                return self._reply(request, target, self._verbs.get(target, query))
            case "list":
                return self._reply(request, target, self._verbs.list(target, query))
            case "delete":
                options = delete_options(await request.read())
                return web.json_response(self._verbs.delete(target, options, query))
            case "deletecollection":
                raise errors.method_not_allowed()
        raw = await request.read()
        kind = _content_type(request)
        warnings: list[str] = []
        status = 200
        if target.verb == "patch":
            obj, created = self._verbs.patch(target, kind, raw, query, manager, warnings)
            status = 201 if created else 200
        elif target.verb == "create":
            obj, status = self._verbs.create(target, decode(raw), query, manager, warnings), 201
        else:
            obj = self._verbs.update(target, decode(raw), query, manager, warnings)
        return self._reply(request, target, obj, status, warnings)

    def _reply(
        self, request: web.Request, target: Target, obj: Json, status: int = 200, warnings: Sequence[str] = ()
    ) -> web.Response:
        if printed_tables.wanted(request.headers.get("Accept", "")) and not target.subresource:
            obj = printed_tables.table(target.resource, obj)
        response = web.Response(text=json.dumps(obj), status=status, content_type="application/json")
        for said in warnings:
            response.headers.add("Warning", f"299 - {json.dumps(said)}")
        return response

    async def _log(self, request: web.Request, target: Target) -> web.StreamResponse:
        pod = self._verbs.get(target)
        chunks = self._logs.logs(pod, request.query)
        first = await anext(chunks, b"")
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        try:
            await response.write(first)
            async for chunk in chunks:
                await response.write(chunk)
        except ConnectionError:
            return response
        await response.write_eof()
        return response


def _content_type(request: web.Request) -> str:
    return request.headers.get("Content-Type", "").split(";")[0].strip()


def _fields(target: Target, query: Mapping[str, str]) -> str:
    """The field selector of a watch. A watch of one name selects by name."""
    own = f"metadata.name={target.name}" if target.name else ""
    return ",".join(part for part in (query.get("fieldSelector", ""), own) if part)
