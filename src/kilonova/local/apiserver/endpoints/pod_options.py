"""Query options of requests for a pod: container, booleans, integers."""

from kilonova.api.json import JsonObject
from kilonova.kube.client.transport import Request
from kilonova.local.apimachinery.errors import bad_request
from kilonova.local.apimachinery.unstructured import nested_objects

_CONTAINER_FIELDS = ("initContainers", "containers", "ephemeralContainers")


def select_container(pod: JsonObject, container_name: str) -> str:
    """The named container; the only one if none is named."""
    name, spec = pod["metadata"]["name"], pod["spec"]
    names: list[str] = [
        item["name"] for group in _CONTAINER_FIELDS for item in nested_objects(spec, group)
    ]
    main: list[str] = [item["name"] for item in nested_objects(spec, "containers")]
    if container_name:
        if container_name not in names:
            raise bad_request(f"container {container_name} is not valid for pod {name}")
        return container_name
    if len(main) == 1:
        return main[0]
    raise bad_request(
        f"a container name must be specified for pod {name}, choose one of: [{' '.join(names)}]"
    )


def parse_flag(request: Request, name: str) -> bool:
    """True unless it is absent or false; as Kubernetes parses it."""
    text = request.query_param(name)
    return text is not None and text.lower() not in ("false", "0")


def parse_integer(request: Request, name: str) -> int | None:
    """An integer, if there is one; 400 if it is invalid."""
    text = request.query_param(name)
    if text is None:
        return None
    try:
        if not text.isascii() or text.strip() != text or "_" in text:
            raise ValueError
        number = int(text)
    except ValueError:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None
    if not -(1 << 63) <= number < 1 << 63:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": value out of range')
    return number
