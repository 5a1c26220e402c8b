"""What a RuntimeClass adds to the pods that name it: its overhead, and where it can run."""

from kilonova.api.json import JsonObject
from kilonova.local.admission.amounts import amounts
from kilonova.local.admission.chain import Attributes
from kilonova.local.errors import ApiError, forbidden
from kilonova.local.kinds.pods import tolerate_lost_nodes
from kilonova.local.kinds.walk import objects, part
from kilonova.local.storage import Collection


class RuntimeClasses:
    """`classes` are the RuntimeClasses, as stored."""

    def __init__(self, classes: Collection) -> None:
        self._classes = classes

    async def mutate(self, attributes: Attributes) -> None:
        chosen = self._class(attributes)
        if chosen is None:
            return
        assert attributes.obj is not None
        spec: JsonObject = attributes.obj["spec"]
        overhead = chosen.get("overhead")
        if overhead is not None:
            fixed = part(overhead, "podFixed")
            if spec.get("overhead") is not None and not _same_amounts(spec["overhead"], fixed):
                raise _refused(attributes, _MISMATCH)
            if fixed:
                spec["overhead"] = dict(fixed)
        if chosen.get("scheduling") is not None:
            _schedule(attributes, spec, chosen["scheduling"])

    async def validate(self, attributes: Attributes) -> None:
        """Whoever came after must have left the overhead alone; none but a class may set it."""
        if not _is_new_pod(attributes):
            return
        assert attributes.obj is not None
        overhead = attributes.obj["spec"].get("overhead")
        chosen = self._class(attributes)
        if chosen is not None and chosen.get("overhead") is not None:
            if not _same_amounts(overhead or {}, part(chosen, "overhead", "podFixed")):
                raise _refused(attributes, _MISMATCH)
        elif overhead is not None:
            raise _refused(attributes, _WITHOUT_CLASS)

    def _class(self, attributes: Attributes) -> JsonObject | None:
        """The class that a new pod names."""
        if not _is_new_pod(attributes):
            return None
        assert attributes.obj is not None
        name = attributes.obj["spec"].get("runtimeClassName")
        if name is None:
            return None
        found = self._classes.get(name)
        if found is None:
            raise _refused(attributes, f'pod rejected: RuntimeClass "{name}" not found')
        return found.decode()


_WITHOUT_CLASS = (
    "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
)
_MISMATCH = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"


def merged_tolerations(first: list[JsonObject], second: list[JsonObject]) -> list[JsonObject]:
    """Both, without those that another one covers; of equal ones the first."""
    everything = [*first, *second]
    merged: list[JsonObject] = []
    for index, each in enumerate(everything):
        later = (other for other in everything[index + 1 :] if other != each)
        if not any(_covers(other, each) for other in [*merged, *later]):
            merged.append(each)
    return merged


def _covers(wide: JsonObject, narrow: JsonObject) -> bool:
    """Whether one toleration tolerates all that another does."""
    if wide == narrow:
        return True
    operator = wide.get("operator") or "Equal"
    same_key = (wide.get("key") or "") == (narrow.get("key") or "")
    if not same_key and (wide.get("key") or operator != "Exists"):
        return False
    effect = wide.get("effect") or ""
    if effect and effect != (narrow.get("effect") or ""):
        return False
    if effect == "NoExecute" and (limit := wide.get("tolerationSeconds")) is not None:
        seconds = narrow.get("tolerationSeconds")
        if seconds is None or seconds > limit:
            return False
    if operator == "Equal":
        # An operator that is left out means Equal, but does not count here, as in Kubernetes.
        is_equal = narrow.get("operator") == "Equal"
        return is_equal and (wide.get("value") or "") == (narrow.get("value") or "")
    return operator == "Exists"


def _schedule(attributes: Attributes, spec: JsonObject, scheduling: JsonObject) -> None:
    selector: dict[str, str] = dict(part(spec, "nodeSelector"))
    for key, wanted in part(scheduling, "nodeSelector").items():
        given = selector.get(key)
        if given is not None and given != wanted:
            raise _refused(
                attributes,
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {wanted}; "
                f"pod.spec.nodeSelector[{key}] = {given}",
            )
        selector[key] = wanted
    if selector:
        spec["nodeSelector"] = selector
    tolerate_lost_nodes(spec)  # those come first
    tolerations = merged_tolerations(
        objects(spec, "tolerations"), objects(scheduling, "tolerations")
    )
    if tolerations:
        spec["tolerations"] = tolerations


def _is_new_pod(attributes: Attributes) -> bool:
    target = attributes.target
    if attributes.obj is None or attributes.operation != "CREATE" or target.subresource:
        return False
    return (target.kind.group, target.kind.plural) == ("", "pods")


def _same_amounts(one: JsonObject, other: JsonObject) -> bool:
    return amounts(one) == amounts(other)


def _refused(attributes: Attributes, reason: str) -> ApiError:
    metadata = part(attributes.obj or {}, "metadata")
    name = metadata.get("name") or metadata.get("generateName") or ""
    return forbidden("", "pods", name, reason)
