"""The API's refusals, as the `Status` objects that the real server answers with."""

from collections.abc import Sequence

from rehearsal.kubernetes.objects import Json
from rehearsal.kubernetes.resources import Resource


class ApiError(Exception):
    """A request is refused: `code` is the HTTP status, `reason` the machine-readable word that clients switch on."""

    def __init__(
        self, code: int, reason: str, message: str, details: Json | None = None, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.headers = headers or {}

    def status(self) -> Json:
        body: Json = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "code": self.code,
        }
        if self.reason:
            body["reason"] = self.reason
        if self.details:
            body["details"] = self.details
        return body


def _details(resource: Resource, name: str) -> Json:
    details: Json = {"kind": resource.plural}
    if name:
        details["name"] = name
    if resource.group:
        details["group"] = resource.group
    return details


def bad_request(message: str) -> ApiError:
    return ApiError(400, "BadRequest", message)


def unauthorized() -> ApiError:
    return ApiError(401, "Unauthorized", "Unauthorized")


def forbidden(resource: Resource, name: str, why: str) -> ApiError:
    target = f'{resource.qualified} "{name}"' if name else resource.qualified
    return ApiError(403, "Forbidden", f"{target} is forbidden: {why}", _details(resource, name))


def not_found(resource: Resource, name: str) -> ApiError:
    return ApiError(404, "NotFound", f'{resource.qualified} "{name}" not found', _details(resource, name))


def no_such_path() -> ApiError:
    return ApiError(404, "NotFound", "the server could not find the requested resource", {})


def method_not_allowed() -> ApiError:
    return ApiError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")


def already_exists(resource: Resource, name: str) -> ApiError:
    message = f'{resource.qualified} "{name}" already exists'
    return ApiError(409, "AlreadyExists", message, _details(resource, name))


def conflict(resource: Resource, name: str, why: str, causes: Sequence[Json] = ()) -> ApiError:
    details = _details(resource, name)
    if causes:
        details["causes"] = list(causes)
        message = f"Apply failed with {len(causes)} conflict{'s' if len(causes) > 1 else ''}: {why}"
    else:
        message = f'Operation cannot be fulfilled on {resource.qualified} "{name}": {why}'
    return ApiError(409, "Conflict", message, details)


def modified(resource: Resource, name: str) -> ApiError:
    return conflict(
        resource,
        name,
        "the object has been modified; please apply your changes to the latest version and try again",
    )


def gone(message: str) -> ApiError:
    return ApiError(410, "Expired", message)


def too_large_version(asked: int, current: int) -> ApiError:
    """NewTooLargeResourceVersionError of apiserver's pkg/storage/errors.go."""
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    message = f"Timeout: Too large resource version: {asked}, current: {current}"
    return ApiError(504, "Timeout", message, {"causes": causes, "retryAfterSeconds": 1}, {"Retry-After": "1"})


def unsupported_media_type(message: str) -> ApiError:
    return ApiError(415, "UnsupportedMediaType", message)


def cause(field: str, kind: str, message: str) -> Json:
    """One problem of an invalid object: `kind` is FieldValueRequired, FieldValueInvalid, FieldValueForbidden, …"""
    return {"reason": kind, "message": message, "field": field}


def required(field: str, message: str = "") -> Json:
    return cause(field, "FieldValueRequired", f"Required value{': ' + message if message else ''}")


def invalid_value(field: str, value: object, message: str) -> Json:
    shown = f'"{value}"' if isinstance(value, str) else str(value)
    return cause(field, "FieldValueInvalid", f"Invalid value: {shown}: {message}")


def field_forbidden(field: str, message: str) -> Json:
    return cause(field, "FieldValueForbidden", f"Forbidden: {message}")


def unsupported(field: str, message: str) -> Json:
    """A problem: the real cluster accepts this, and the double cannot run it. It is refused, never ignored."""
    return cause(field, "FieldValueNotSupported", f"Unsupported value: the rehearsal cannot run this: {message}")


def invalid(resource: Resource, name: str, causes: Sequence[Json]) -> ApiError:
    """A 422 with every problem of the object."""
    listed = [f"{c['field']}: {c['message']}" for c in causes]
    shown = listed[0] if len(listed) == 1 else "[" + ", ".join(listed) + "]"
    kind = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    details = {**_details(resource, name), "kind": resource.kind, "causes": list(causes)}
    return ApiError(422, "Invalid", f'{kind} "{name}" is invalid: {shown}', details)
