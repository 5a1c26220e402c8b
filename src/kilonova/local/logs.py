"""`pods/log`: which container is meant, and where its lines come from."""

from datetime import datetime

from kilonova.api.json import JsonObject
from kilonova.api.times import parse_time
from kilonova.kube.transport import Reply, Request, StreamReply
from kilonova.local.errors import Problem, bad_request, forbidden_field, invalid, invalid_value
from kilonova.local.kinds.walk import objects, part
from kilonova.local.kubelets import Kubelets, LogRequest
from kilonova.local.podoptions import chosen_container, flag, whole_number

_STATUSES = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
_WAITING = {
    "ErrImagePull": "image can't be pulled",
    "ImagePullBackOff": "trying and failing to pull image",
}
_TEXT = {"content-type": "text/plain"}


class PodLogs:
    """Answers requests for logs from the nodes that have them."""

    def __init__(self, kubelets: Kubelets) -> None:
        self._kubelets = kubelets

    async def read(self, pod: JsonObject, request: Request) -> Reply | StreamReply:
        """The log of one container, as text."""
        wanted = _wanted(pod, request)
        node = pod["spec"].get("nodeName", "")
        if not node:
            return Reply(204)
        kubelet = self._kubelets.find(node)
        _check_started(pod, wanted)
        return StreamReply(200, kubelet.logs(pod, wanted), dict(_TEXT), paced=True)


def _wanted(pod: JsonObject, request: Request) -> LogRequest:
    follow, previous, timestamps = (
        flag(request, name) for name in ("follow", "previous", "timestamps")
    )
    tail, since_seconds, limit = (
        whole_number(request, name) for name in ("tailLines", "sinceSeconds", "limitBytes")
    )
    since = _time(request.param("sinceTime"))
    problems: list[Problem] = []
    if tail is not None and tail < 0:
        problems.append(invalid_value("tailLines", tail, "must be greater than or equal to 0"))
    if limit is not None and limit < 1:
        problems.append(invalid_value("limitBytes", limit, "must be greater than 0"))
    if since_seconds is not None and request.param("sinceTime") is not None:
        detail = "at most one of `sinceTime` or `sinceSeconds` may be specified"
        problems.append(forbidden_field("[]", detail))
    elif since_seconds is not None and since_seconds < 1:
        problems.append(invalid_value("sinceSeconds", since_seconds, "must be greater than 0"))
    if request.param("stream") is not None:
        problems.append(forbidden_field("stream", "may not be specified"))
    if problems:
        raise invalid("", "PodLogOptions", pod["metadata"]["name"], problems)
    container = chosen_container(pod, request.param("container") or "")
    return LogRequest(container, follow, previous, timestamps, tail, since_seconds, since, limit)


def _time(text: str | None) -> datetime | None:
    """RFC 3339; 400 where it is not. Empty and `null` mean none."""
    if text in (None, "", "null"):
        return None
    try:
        return parse_time(text)
    except ValueError:
        raise bad_request(
            f'parsing time "{text}" as "2006-01-02T15:04:05Z07:00": cannot parse "{text}" as "2006"'
        ) from None


def _check_started(pod: JsonObject, wanted: LogRequest) -> None:
    """400 where there is no log yet, in the kubelet's words."""
    where = f'container "{wanted.container}" in pod "{pod["metadata"]["name"]}"'
    states = {item["name"]: item for group in _STATUSES for item in objects(pod, "status", group)}
    found: JsonObject | None = states.get(wanted.container)
    if found is None:
        raise bad_request(f"{where} is not available")
    state, has_ended_before = part(found, "state"), bool(part(found, "lastState", "terminated"))
    if wanted.previous and not has_ended_before:
        raise bad_request(f"previous terminated {where} not found")
    if wanted.previous or "running" in state or "terminated" in state or has_ended_before:
        return
    if "waiting" not in state:
        raise bad_request(f"{where} is waiting to start - no logs yet")
    reason = part(state, "waiting").get("reason", "")
    raise bad_request(f"{where} is waiting to start: {_WAITING.get(reason, reason)}")
