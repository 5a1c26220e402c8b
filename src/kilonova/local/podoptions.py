"""What requests about a pod say in their query: which container, yes or no, numbers."""

from kilonova.api.json import JsonObject
from kilonova.kube.transport import Request
from kilonova.local.errors import bad_request
from kilonova.local.kinds.walk import objects

_GROUPS = ("initContainers", "containers", "ephemeralContainers")


def chosen_container(pod: JsonObject, wanted: str) -> str:
    """The container that is meant; the only one where none is named."""
    name, spec = pod["metadata"]["name"], pod["spec"]
    names: list[str] = [item["name"] for group in _GROUPS for item in objects(spec, group)]
    main: list[str] = [item["name"] for item in objects(spec, "containers")]
    if wanted:
        if wanted not in names:
            raise bad_request(f"container {wanted} is not valid for pod {name}")
        return wanted
    if len(main) == 1:
        return main[0]
    raise bad_request(
        f"a container name must be specified for pod {name}, choose one of: [{' '.join(names)}]"
    )


def flag(request: Request, name: str) -> bool:
    """Yes, unless it is absent or says false; as Kubernetes reads it."""
    text = request.param(name)
    return text is not None and text.lower() not in ("false", "0")


def whole_number(request: Request, name: str) -> int | None:
    """A number, if there is one; 400 where it is none."""
    text = request.param(name)
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
