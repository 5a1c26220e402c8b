"""Priority: sets a pod's priority from its PriorityClass."""

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import forbidden
from kilonova.local.apimachinery.unstructured import nested_object
from kilonova.local.apiserver.admission.chain import Attributes
from kilonova.local.apiserver.storage import Collection


class PriorityPlugin:
    """`classes` are the stored PriorityClasses."""

    def __init__(self, classes: Collection) -> None:
        self._classes = classes
        self._cached_at = -1
        self._cached_default: JsonObject | None = None

    async def mutate(self, attributes: Attributes) -> None:
        target, pod = attributes.target, attributes.obj
        if pod is None or attributes.operation != "CREATE" or target.subresource:
            return
        if (target.kind.group, target.kind.plural) != ("", "pods"):
            return
        spec: JsonObject = pod["spec"]
        priority_class = self._find_class(attributes, spec.get("priorityClassName", ""))
        value = priority_class.get("value", 0) if priority_class is not None else 0
        requested = spec.get("priority")
        if requested is not None and requested != value:
            raise forbidden(
                "",
                "pods",
                _class_name(pod),
                f"the integer value of priority ({requested}) must not be provided in pod spec; "
                f"priority admission controller computed {value} from the given "
                "PriorityClass name",
            )
        if priority_class is None:
            return
        spec["priorityClassName"] = priority_class["metadata"]["name"]
        spec["priority"] = value
        spec["preemptionPolicy"] = priority_class.get("preemptionPolicy", "PreemptLowerPriority")

    def _find_class(self, attributes: Attributes, name: str) -> JsonObject | None:
        if not name:
            return self._default_class()
        found = self._classes.get(name)
        if found is None:
            raise forbidden(
                "",
                "pods",
                _class_name(attributes.obj),
                f"no PriorityClass with name {name} was found",
            )
        return found.decode()

    def _default_class(self) -> JsonObject | None:
        """The class of pods without one: the lowest of the default classes."""
        if self._cached_at != self._classes.newest_revision:
            self._cached_at = self._classes.newest_revision
            wanting = [
                entry.decode()
                for entry in self._classes.range_entries("")
                if b'"globalDefault":true' in entry.body
            ]
            self._cached_default = min(wanting, key=lambda each: each.get("value", 0), default=None)
        return self._cached_default


def _class_name(pod: JsonObject | None) -> str:
    metadata = nested_object(pod or {}, "metadata")
    return metadata.get("name") or metadata.get("generateName") or ""
