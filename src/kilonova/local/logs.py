"""`pods/log`: which container is meant, and where its lines come from."""

from kilonova.api.json import JsonObject
from kilonova.kube.transport import Reply, Request, StreamReply
from kilonova.local.errors import bad_request, invalid, invalid_value
from kilonova.local.kinds.walk import objects, part
from kilonova.local.kubelets import Kubelets, LogRequest

_TEXT = {"content-type": "text/plain"}


class PodLogs:
    """Answers requests for logs from the nodes that have them."""

    def __init__(self, kubelets: Kubelets) -> None:
        self._kubelets = kubelets

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
        kubelet = self._kubelets.find(node)
        _check_started(pod, wanted)
        return StreamReply(200, kubelet.logs(pod, wanted), dict(_TEXT))


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
