"""A pod's priority is the number behind the name of its class."""

from kilonova.api.json import JsonObject
from kilonova.local.admission.chain import Attributes
from kilonova.local.errors import forbidden
from kilonova.local.kinds.walk import part
from kilonova.local.storage import Collection


class Priority:
    """`classes` are the PriorityClasses, as stored."""

    def __init__(self, classes: Collection) -> None:
        self._classes = classes
        self._asked_at = -1
        self._least: JsonObject | None = None

    async def mutate(self, attributes: Attributes) -> None:
        target, pod = attributes.target, attributes.obj
        if pod is None or attributes.operation != "CREATE" or target.subresource:
            return
        if (target.kind.group, target.kind.plural) != ("", "pods"):
            return
        spec: JsonObject = pod["spec"]
        chosen = self._class(attributes, spec.get("priorityClassName", ""))
        value = chosen.get("value", 0) if chosen is not None else 0
        given = spec.get("priority")
        if given is not None and given != value:
            raise forbidden(
                "",
                "pods",
                _name(pod),
                f"the integer value of priority ({given}) must not be provided in pod spec; "
                f"priority admission controller computed {value} from the given "
                "PriorityClass name",
            )
        if chosen is None:
            return
        spec["priorityClassName"] = chosen["metadata"]["name"]
        spec["priority"] = value
        spec["preemptionPolicy"] = chosen.get("preemptionPolicy", "PreemptLowerPriority")

    def _class(self, attributes: Attributes, name: str) -> JsonObject | None:
        if not name:
            return self._default()
        found = self._classes.get(name)
        if found is None:
            raise forbidden(
                "", "pods", _name(attributes.obj), f"no PriorityClass with name {name} was found"
            )
        return found.decode()

    def _default(self) -> JsonObject | None:
        """The class of pods that name none: the least of those that want to be it."""
        if self._asked_at != self._classes.newest:
            self._asked_at = self._classes.newest
            wanting = [
                entry.decode()
                for entry in self._classes.between("")
                if b'"globalDefault":true' in entry.body
            ]
            self._least = min(wanting, key=lambda each: each.get("value", 0), default=None)
        return self._least


def _name(pod: JsonObject | None) -> str:
    metadata = part(pod or {}, "metadata")
    return metadata.get("name") or metadata.get("generateName") or ""
