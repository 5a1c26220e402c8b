"""Validation of a container's probes, lifecycle hooks, volume mounts and run-as ids."""

import re
from collections.abc import Iterator
from typing import Any

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import (
    FieldError,
    forbidden_value,
    invalid_value,
    not_supported_value,
    required_value,
)
from kilonova.local.apimachinery.names import port_name_error
from kilonova.local.apimachinery.unstructured import nested_object, nested_objects
from kilonova.local.apiserver.kinds.core.pods.volume_validation import validate_descending_path
from kilonova.local.apiserver.kinds.validation import validate_port_number

_HEADER = re.compile(r"[-A-Za-z0-9]+")
_HEADER_DETAIL = (
    "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', "
    "regex used for validation is '[-A-Za-z0-9]+')"
)
_MAX_ID = (1 << 31) - 1
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_HOOKS = ("postStart", "preStop")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")


def validate_container_fields(
    container: JsonObject, path: str, grace: int | None
) -> Iterator[FieldError]:
    """Validate these fields; `grace` is the pod's termination grace period in seconds."""
    for index, mount in enumerate(nested_objects(container, "volumeMounts")):
        yield from _validate_sub_path(mount, index, f"{path}.volumeMounts")
    yield from validate_run_as_ids(
        nested_object(container, "securityContext"),
        f"{path}.securityContext",
        ("runAsUser", "runAsGroup"),
    )
    for hook in _HOOKS:
        if (handler := nested_object(container, "lifecycle").get(hook)) is not None:
            hook_path = f"{path}.lifecycle.{hook}"
            kinds = [each for each in _HANDLERS if each in handler]
            if not kinds:
                yield required_value(hook_path, "must specify a handler type")
            for extra in kinds[1:]:
                yield forbidden_value(
                    f"{hook_path}.{extra}", "may not specify more than 1 handler type"
                )
            yield from _validate_handler(handler, hook_path, grace)
    for probe in _PROBES:
        if (handler := container.get(probe)) is not None:
            yield from _validate_handler(handler, f"{path}.{probe}", grace)


def validate_run_as_ids(
    context: JsonObject, path: str, fields: tuple[str, ...]
) -> Iterator[FieldError]:
    """User and group ids must be in Linux's range."""
    for field in fields:
        value: Any = context.get(field)
        if value is not None and not 0 <= value <= _MAX_ID:
            detail = f"must be between 0 and {_MAX_ID}, inclusive"
            yield invalid_value(f"{path}.{field}", value, detail)


def _validate_sub_path(mount: JsonObject, index: int, path: str) -> Iterator[FieldError]:
    # For most of these errors Kubernetes' path does not contain the index of the mount.
    if mount.get("subPath"):
        yield from validate_descending_path(mount["subPath"], f"{path}.subPath")
    if expression := mount.get("subPathExpr"):
        if mount.get("subPath"):
            detail = "subPathExpr and subPath are mutually exclusive"
            yield invalid_value(f"{path}[{index}].subPathExpr", expression, detail)
        yield from validate_descending_path(expression, f"{path}.subPathExpr")


def _validate_handler(handler: JsonObject, path: str, grace: int | None) -> Iterator[FieldError]:
    """Validate the first action of a handler."""
    kind = next((each for each in _HANDLERS if each in handler), "")
    action, action_path = nested_object(handler, kind), f"{path}.{kind}"
    match kind:
        case "exec":
            if not action.get("command"):
                yield required_value(f"{action_path}.command")
        case "httpGet":
            yield from _validate_handler_port(action.get("port", 0), f"{action_path}.port")
            if (scheme := action.get("scheme", "HTTP")) not in ("HTTP", "HTTPS"):
                yield not_supported_value(f"{action_path}.scheme", scheme, ["HTTP", "HTTPS"])
            for header in nested_objects(action, "httpHeaders"):
                if not _HEADER.fullmatch(header.get("name", "")):
                    headers_path = f"{action_path}.httpHeaders"
                    yield invalid_value(headers_path, header.get("name", ""), _HEADER_DETAIL)
        case "tcpSocket" | "grpc":
            yield from _validate_handler_port(action.get("port", 0), f"{action_path}.port")
        case "sleep":
            seconds: int = action.get("seconds", 0)
            if grace is not None and not 0 <= seconds <= grace:
                detail = (
                    f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
                )
                yield invalid_value(action_path, seconds, detail)
        case _:
            return


def _validate_handler_port(port: Any, path: str) -> Iterator[FieldError]:
    if isinstance(port, int):
        yield from validate_port_number(port, path)
    elif error := port_name_error(port):
        yield invalid_value(path, port, error)
