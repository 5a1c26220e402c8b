"""Rules for what a container's probes and hooks do, where volumes appear, and as whom it runs."""

import re
from collections.abc import Iterator
from typing import Any

from kilonova.api.json import JsonObject
from kilonova.local.errors import (
    Problem,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from kilonova.local.kinds.rules import port_number
from kilonova.local.kinds.volumerules import descending_path_problems
from kilonova.local.kinds.walk import objects, part
from kilonova.local.names import port_name

_HEADER = re.compile(r"[-A-Za-z0-9]+")
_HEADER_DETAIL = (
    "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', "
    "regex used for validation is '[-A-Za-z0-9]+')"
)
_MOST_ID = (1 << 31) - 1
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_HOOKS = ("postStart", "preStop")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")


def container_part_problems(
    container: JsonObject, path: str, grace: int | None
) -> Iterator[Problem]:
    """All of them; `grace` are the seconds that its pod has to end."""
    for index, mount in enumerate(objects(container, "volumeMounts")):
        yield from _sub_path_problems(mount, index, f"{path}.volumeMounts")
    yield from identity_problems(
        part(container, "securityContext"), f"{path}.securityContext", ("runAsUser", "runAsGroup")
    )
    for hook in _HOOKS:
        if (handler := part(container, "lifecycle").get(hook)) is not None:
            here = f"{path}.lifecycle.{hook}"
            kinds = [each for each in _HANDLERS if each in handler]
            if not kinds:
                yield required(here, "must specify a handler type")
            for extra in kinds[1:]:
                yield forbidden_field(f"{here}.{extra}", "may not specify more than 1 handler type")
            yield from _handler_problems(handler, here, grace)
    for probe in _PROBES:
        if (handler := container.get(probe)) is not None:
            yield from _handler_problems(handler, f"{path}.{probe}", grace)


def identity_problems(context: JsonObject, path: str, fields: tuple[str, ...]) -> Iterator[Problem]:
    """Numbers of users and groups are those that Linux has."""
    for field in fields:
        value: Any = context.get(field)
        if value is not None and not 0 <= value <= _MOST_ID:
            detail = f"must be between 0 and {_MOST_ID}, inclusive"
            yield invalid_value(f"{path}.{field}", value, detail)


def _sub_path_problems(mount: JsonObject, index: int, path: str) -> Iterator[Problem]:
    # Of most of them Kubernetes does not say which mount it is.
    if mount.get("subPath"):
        yield from descending_path_problems(mount["subPath"], f"{path}.subPath")
    if expression := mount.get("subPathExpr"):
        if mount.get("subPath"):
            detail = "subPathExpr and subPath are mutually exclusive"
            yield invalid_value(f"{path}[{index}].subPathExpr", expression, detail)
        yield from descending_path_problems(expression, f"{path}.subPathExpr")


def _handler_problems(handler: JsonObject, path: str, grace: int | None) -> Iterator[Problem]:
    """What the first of its actions does."""
    kind = next((each for each in _HANDLERS if each in handler), "")
    action, here = part(handler, kind), f"{path}.{kind}"
    match kind:
        case "exec":
            if not action.get("command"):
                yield required(f"{here}.command")
        case "httpGet":
            yield from _port_problems(action.get("port", 0), f"{here}.port")
            if (scheme := action.get("scheme", "HTTP")) not in ("HTTP", "HTTPS"):
                yield not_supported(f"{here}.scheme", scheme, ["HTTP", "HTTPS"])
            for header in objects(action, "httpHeaders"):
                if not _HEADER.fullmatch(header.get("name", "")):
                    where = f"{here}.httpHeaders"
                    yield invalid_value(where, header.get("name", ""), _HEADER_DETAIL)
        case "tcpSocket" | "grpc":
            yield from _port_problems(action.get("port", 0), f"{here}.port")
        case "sleep":
            seconds: int = action.get("seconds", 0)
            if grace is not None and not 0 <= seconds <= grace:
                detail = (
                    f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
                )
                yield invalid_value(here, seconds, detail)
        case _:
            return


def _port_problems(port: Any, path: str) -> Iterator[Problem]:
    if isinstance(port, int):
        yield from port_number(port, path)
    elif trouble := port_name(port):
        yield invalid_value(path, port, trouble)
