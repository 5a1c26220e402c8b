"""`pods/log`: which container is meant, and where its lines come from."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol

from kilonova.api.json import JsonObject
from kilonova.kube.transport import Reply, Request, StreamReply
from kilonova.local.errors import ApiError, bad_request, invalid, invalid_value
from kilonova.local.kinds.walk import objects, part

_TEXT = {"content-type": "text/plain"}


@dataclass(frozen=True, slots=True)
class LogRequest:
    """Which lines of a container's log are wanted."""

    container: str
    follow: bool
    previous: bool
    timestamps: bool
    tail: int | None
    since_seconds: int | None


class LogSource(Protocol):
    """A node's memory of what its containers printed."""

    def open(self, pod: JsonObject, wanted: LogRequest) -> AsyncIterator[bytes]: ...


class PodLogs:
    """Finds the node that has a pod's log. Nodes announce themselves by a test of the pod."""

    def __init__(self) -> None:
        self._sources: dict[str, LogSource] = {}

    def register(self, node: str, source: LogSource) -> None:
        self._sources[node] = source

    async def read(self, pod: JsonObject, request: Request) -> Reply | StreamReply:
        """The log of one container, as text."""
        name, spec = pod["metadata"]["name"], pod["spec"]
        wanted = LogRequest(
            _container(name, spec, request.param("container") or ""),
            _true(request, "follow"),
            _true(request, "previous"),
            _true(request, "timestamps"),
            _number(request, name, "tailLines", least=0),
            _number(request, name, "sinceSeconds", least=1),
        )
        node = spec.get("nodeName", "")
        if not node:
            return Reply(204)
        source = self._sources.get(node)
        if source is None:
            raise ApiError(
                500, "InternalError", f'Get the log of pod {name}: node "{node}" does not answer'
            )
        _check_started(pod, wanted)
        return StreamReply(200, source.open(pod, wanted), dict(_TEXT))


def _container(pod: str, spec: JsonObject, wanted: str) -> str:
    groups = ("initContainers", "containers", "ephemeralContainers")
    names: list[str] = [item["name"] for group in groups for item in objects(spec, group)]
    main: list[str] = [item["name"] for item in objects(spec, "containers")]
    if wanted:
        if wanted not in names:
            raise bad_request(f"container {wanted} is not valid for pod {pod}")
        return wanted
    if len(main) == 1:
        return main[0]
    raise bad_request(
        f"a container name must be specified for pod {pod}, choose one of: [{' '.join(main)}]"
    )


def _check_started(pod: JsonObject, wanted: LogRequest) -> None:
    groups = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
    states = {item["name"]: item for group in groups for item in objects(pod, "status", group)}
    found: JsonObject | None = states.get(wanted.container)
    where = f'container "{wanted.container}" in pod "{pod["metadata"]["name"]}"'
    if wanted.previous and not (found or {}).get("restartCount"):
        raise bad_request(f"previous terminated {where} not found")
    if found is None:
        raise bad_request(f"{where} is waiting to start: ContainerCreating")
    waiting = part(found, "state", "waiting")
    if waiting and not found.get("restartCount"):
        reason = waiting.get("reason") or "ContainerCreating"
        raise bad_request(f"{where} is waiting to start: {reason}")


def _true(request: Request, name: str) -> bool:
    return request.param(name) in ("true", "1", "True", "t")


def _number(request: Request, pod: str, name: str, least: int) -> int | None:
    text = request.param(name)
    if text is None:
        return None
    try:
        value = int(text)
    except ValueError:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None
    if value < least:
        bound = f"greater than {least - 1}" if least else "greater than or equal to 0"
        problem = invalid_value(name, value, f"must be {bound}")
        raise invalid("", "PodLogOptions", pod, [problem])
    return value
