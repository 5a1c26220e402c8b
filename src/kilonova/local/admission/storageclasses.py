"""DefaultStorageClass: claims that name no class get the default one."""

from kilonova.local.admission.chain import Attributes
from kilonova.local.kinds.walk import inside, part
from kilonova.local.storage import Collection

_DEFAULT = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_CLASS = "volume.beta.kubernetes.io/storage-class"


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
        spec = inside(claim, "spec")
        annotated = _CLASS in part(claim, "metadata", "annotations")
        if annotated or spec.get("storageClassName") is not None:
            return
        name = self._default()
        if name is not None:
            spec["storageClassName"] = name

    def _default(self) -> str | None:
        """The youngest of the classes that want to be it."""
        wanting = [
            entry.decode()["metadata"]
            for entry in self._classes.between("")
            if b"/is-default-class" in entry.body
        ]
        wanting = [each for each in wanting if _is_default(part(each, "annotations"))]
        wanting.sort(key=lambda each: each["name"])
        found = max(wanting, key=lambda each: each["creationTimestamp"], default=None)
        return None if found is None else found["name"]


def _is_default(annotations: dict[str, str]) -> bool:
    return any(annotations.get(name) == "true" for name in _DEFAULT)
