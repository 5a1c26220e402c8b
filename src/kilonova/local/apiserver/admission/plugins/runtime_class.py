"""RuntimeClass: adds the overhead and scheduling constraints of a RuntimeClass to its pods."""

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import ApiError, forbidden
from kilonova.local.apimachinery.unstructured import nested_object, nested_objects
from kilonova.local.apiserver.admission.chain import Attributes
from kilonova.local.apiserver.storage import Collection
from kilonova.local.objects.tolerations import add_default_tolerations
from kilonova.local.quota.resource_lists import parse_resource_list


class RuntimeClassPlugin:
    """`classes` are the stored RuntimeClasses."""

    def __init__(self, classes: Collection) -> None:
        self._classes = classes

    async def mutate(self, attributes: Attributes) -> None:
        runtime_class = self._find_class(attributes)
        if runtime_class is None:
            return
        assert attributes.obj is not None
        spec: JsonObject = attributes.obj["spec"]
        overhead = runtime_class.get("overhead")
        if overhead is not None:
            fixed = nested_object(overhead, "podFixed")
            if spec.get("overhead") is not None and not _equal_resources(spec["overhead"], fixed):
                raise _forbidden(attributes, _OVERHEAD_MISMATCH)
            if fixed:
                spec["overhead"] = dict(fixed)
        if runtime_class.get("scheduling") is not None:
            _merge_scheduling(attributes, spec, runtime_class["scheduling"])

    async def validate(self, attributes: Attributes) -> None:
        """The overhead must be unchanged by later plugins; only a RuntimeClass may set it."""
        if not _is_new_pod(attributes):
            return
        assert attributes.obj is not None
        overhead = attributes.obj["spec"].get("overhead")
        runtime_class = self._find_class(attributes)
        if runtime_class is not None and runtime_class.get("overhead") is not None:
            if not _equal_resources(
                overhead or {}, nested_object(runtime_class, "overhead", "podFixed")
            ):
                raise _forbidden(attributes, _OVERHEAD_MISMATCH)
        elif overhead is not None:
            raise _forbidden(attributes, _OVERHEAD_WITHOUT_CLASS)

    def _find_class(self, attributes: Attributes) -> JsonObject | None:
        """The class of a new pod."""
        if not _is_new_pod(attributes):
            return None
        assert attributes.obj is not None
        name = attributes.obj["spec"].get("runtimeClassName")
        if name is None:
            return None
        found = self._classes.get(name)
        if found is None:
            raise _forbidden(attributes, f'pod rejected: RuntimeClass "{name}" not found')
        return found.decode()


_OVERHEAD_WITHOUT_CLASS = (
    "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
)
_OVERHEAD_MISMATCH = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"


def merge_tolerations(first: list[JsonObject], second: list[JsonObject]) -> list[JsonObject]:
    """Both lists, without tolerations that another one covers; of equal ones the first."""
    everything = [*first, *second]
    merged: list[JsonObject] = []
    for index, each in enumerate(everything):
        later = (
            second_resources
            for second_resources in everything[index + 1 :]
            if second_resources != each
        )
        if not any(
            _covers_toleration(second_resources, each) for second_resources in [*merged, *later]
        ):
            merged.append(each)
    return merged


def _covers_toleration(wide: JsonObject, narrow: JsonObject) -> bool:
    """Whether one toleration tolerates everything that another does."""
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
        # A missing operator means Equal, but is ignored here, as in Kubernetes.
        is_equal = narrow.get("operator") == "Equal"
        return is_equal and (wide.get("value") or "") == (narrow.get("value") or "")
    return operator == "Exists"


def _merge_scheduling(attributes: Attributes, spec: JsonObject, scheduling: JsonObject) -> None:
    selector: dict[str, str] = dict(nested_object(spec, "nodeSelector"))
    for key, required in nested_object(scheduling, "nodeSelector").items():
        present = selector.get(key)
        if present is not None and present != required:
            raise _forbidden(
                attributes,
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {required}; "
                f"pod.spec.nodeSelector[{key}] = {present}",
            )
        selector[key] = required
    if selector:
        spec["nodeSelector"] = selector
    add_default_tolerations(spec)  # the default tolerations come first
    tolerations = merge_tolerations(
        nested_objects(spec, "tolerations"), nested_objects(scheduling, "tolerations")
    )
    if tolerations:
        spec["tolerations"] = tolerations


def _is_new_pod(attributes: Attributes) -> bool:
    target = attributes.target
    if attributes.obj is None or attributes.operation != "CREATE" or target.subresource:
        return False
    return (target.kind.group, target.kind.plural) == ("", "pods")


def _equal_resources(first_resources: JsonObject, second_resources: JsonObject) -> bool:
    return parse_resource_list(first_resources) == parse_resource_list(second_resources)


def _forbidden(attributes: Attributes, reason: str) -> ApiError:
    metadata = nested_object(attributes.obj or {}, "metadata")
    name = metadata.get("name") or metadata.get("generateName") or ""
    return forbidden("", "pods", name, reason)
