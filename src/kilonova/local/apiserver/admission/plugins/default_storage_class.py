"""DefaultStorageClass: sets the default class of claims without one."""

from kilonova.local.apimachinery.unstructured import ensure_object, nested_object
from kilonova.local.apiserver.admission.chain import Attributes
from kilonova.local.apiserver.storage import Collection

_DEFAULT_CLASS_ANNOTATIONS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"


class DefaultStorageClass:
    """`classes` are the StorageClasses, as stored."""

    def __init__(self, classes: Collection) -> None:
        self._classes = classes

    async def mutate(self, attributes: Attributes) -> None:
        target, claim = attributes.target, attributes.obj
        if claim is None or attributes.operation != "CREATE" or target.subresource:
            return
        if (target.kind.group, target.kind.plural) != ("", "persistentvolumeclaims"):
            return
        spec = ensure_object(claim, "spec")
        annotated = _CLASS_ANNOTATION in nested_object(claim, "metadata", "annotations")
        if annotated or spec.get("storageClassName") is not None:
            return
        name = self._default_class()
        if name is not None:
            spec["storageClassName"] = name

    def _default_class(self) -> str | None:
        """The newest of the default classes."""
        wanting = [
            entry.decode()["metadata"]
            for entry in self._classes.range_entries("")
            if b"/is-default-class" in entry.body
        ]
        wanting = [each for each in wanting if _is_default(nested_object(each, "annotations"))]
        wanting.sort(key=lambda each: each["name"])
        found = max(wanting, key=lambda each: each["creationTimestamp"], default=None)
        return None if found is None else found["name"]


def _is_default(annotations: dict[str, str]) -> bool:
    return any(annotations.get(name) == "true" for name in _DEFAULT_CLASS_ANNOTATIONS)
