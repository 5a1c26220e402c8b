"""`pods/log`: selects the container, and streams its log from the node."""

from datetime import datetime

from kilonova.api.json import JsonObject
from kilonova.api.times import parse_time
from kilonova.kube.client.transport import Reply, Request, StreamReply
from kilonova.local.apimachinery.errors import (
    FieldError,
    bad_request,
    forbidden_value,
    invalid,
    invalid_value,
)
from kilonova.local.apimachinery.unstructured import nested_object, nested_objects
from kilonova.local.apiserver.endpoints.pod_options import (
    parse_flag,
    parse_integer,
    select_container,
)
from kilonova.local.kubelet_api import Kubelets, LogRequest

_STATUSES = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
_WAITING_MESSAGES = {
    "ErrImagePull": "image can't be pulled",
    "ImagePullBackOff": "trying and failing to pull image",
}
_TEXT = {"content-type": "text/plain"}


class PodLogHandler:
    """Serves logs from the nodes that have them."""

    def __init__(self, kubelets: Kubelets) -> None:
        self._kubelets = kubelets

    async def handle(self, pod: JsonObject, request: Request) -> Reply | StreamReply:
        """The log of one container, as text."""
        options = _parse_log_options(pod, request)
        node = pod["spec"].get("nodeName", "")
        if not node:
            return Reply(204)
        kubelet = self._kubelets.get(node)
        _check_log_available(pod, options)
        return StreamReply(200, kubelet.logs(pod, options), dict(_TEXT), waits_for_client=True)


def _parse_log_options(pod: JsonObject, request: Request) -> LogRequest:
    follow, previous, timestamps = (
        parse_flag(request, name) for name in ("follow", "previous", "timestamps")
    )
    tail, since_seconds, limit = (
        parse_integer(request, name) for name in ("tailLines", "sinceSeconds", "limitBytes")
    )
    since = _parse_since_time(request.query_param("sinceTime"))
    problems: list[FieldError] = []
    if tail is not None and tail < 0:
        problems.append(invalid_value("tailLines", tail, "must be greater than or equal to 0"))
    if limit is not None and limit < 1:
        problems.append(invalid_value("limitBytes", limit, "must be greater than 0"))
    if since_seconds is not None and request.query_param("sinceTime") is not None:
        detail = "at most one of `sinceTime` or `sinceSeconds` may be specified"
        problems.append(forbidden_value("[]", detail))
    elif since_seconds is not None and since_seconds < 1:
        problems.append(invalid_value("sinceSeconds", since_seconds, "must be greater than 0"))
    if request.query_param("stream") is not None:
        problems.append(forbidden_value("stream", "may not be specified"))
    if problems:
        raise invalid("", "PodLogOptions", pod["metadata"]["name"], problems)
    container = select_container(pod, request.query_param("container") or "")
    return LogRequest(container, follow, previous, timestamps, tail, since_seconds, since, limit)


def _parse_since_time(text: str | None) -> datetime | None:
    """Parse RFC 3339; 400 if it is invalid. Empty and `null` mean none."""
    if text in (None, "", "null"):
        return None
    try:
        return parse_time(text)
    except ValueError:
        raise bad_request(
            f'parsing time "{text}" as "2006-01-02T15:04:05Z07:00": cannot parse "{text}" as "2006"'
        ) from None


def _check_log_available(pod: JsonObject, options: LogRequest) -> None:
    """Raise 400 if there is no log yet, with the kubelet's message."""
    where = f'container "{options.container}" in pod "{pod["metadata"]["name"]}"'
    states = {
        item["name"]: item for group in _STATUSES for item in nested_objects(pod, "status", group)
    }
    found: JsonObject | None = states.get(options.container)
    if found is None:
        raise bad_request(f"{where} is not available")
    state, has_terminated_before = (
        nested_object(found, "state"),
        bool(nested_object(found, "lastState", "terminated")),
    )
    if options.previous and not has_terminated_before:
        raise bad_request(f"previous terminated {where} not found")
    if options.previous or "running" in state or "terminated" in state or has_terminated_before:
        return
    if "waiting" not in state:
        raise bad_request(f"{where} is waiting to start - no logs yet")
    reason = nested_object(state, "waiting").get("reason", "")
    raise bad_request(f"{where} is waiting to start: {_WAITING_MESSAGES.get(reason, reason)}")
