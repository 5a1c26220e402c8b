"""What a CustomResourceDefinition is made from: a kind, its versions, columns and `/scale`."""

from dataclasses import dataclass

import msgspec

from kilonova.api.json import JsonObject


@dataclass(frozen=True, slots=True)
class PrinterColumn:
    """A column of `kubectl get`; a wide one is shown only with `-o wide`."""

    name: str
    type: str
    path: str
    wide: bool = False

    def to_json(self) -> JsonObject:
        """The column as in the CRD."""
        column = {"name": self.name, "type": self.type, "jsonPath": self.path}
        return {**column, "priority": 1} if self.wide else column


AGE = PrinterColumn("Age", "date", ".metadata.creationTimestamp")


def count_column(name: str, path: str, *, wide: bool = False) -> PrinterColumn:
    """A column with a number."""
    return PrinterColumn(name, "integer", path, wide)


@dataclass(frozen=True, slots=True)
class Scale:
    """The paths that `/scale` reads and writes. Without a selector, a HorizontalPodAutoscaler
    cannot find the pods, and `kubectl scale` still works.
    """

    selector_path: str = ""
    spec_replicas_path: str = ".spec.replicas"
    status_replicas_path: str = ".status.replicas"

    def to_json(self) -> JsonObject:
        """The subresource as in the CRD."""
        paths = {
            "specReplicasPath": self.spec_replicas_path,
            "statusReplicasPath": self.status_replicas_path,
        }
        return {**paths, "labelSelectorPath": self.selector_path} if self.selector_path else paths


@dataclass(frozen=True, slots=True)
class CrdVersion:
    """A version of a kind. Objects are stored in exactly one version; one that is not `served`
    is kept only so that stored objects of it stay readable. `deprecation` is the warning that
    clients of the version get.
    """

    name: str
    type: type[msgspec.Struct]
    columns: tuple[PrinterColumn, ...] = ()
    scale: Scale | None = None
    storage: bool = True
    served: bool = True
    deprecation: str = ""


@dataclass(frozen=True, slots=True)
class CrdKind:
    """A kind to define. Versions are converted by changing `apiVersion` alone (strategy `None`),
    so the stored version has every field of the others.
    """

    group: str
    plural: str
    short_names: tuple[str, ...]
    versions: tuple[CrdVersion, ...]
    namespaced: bool = True

    def __post_init__(self) -> None:
        stored = [each.name for each in self.versions if each.storage]
        if len(stored) != 1:
            found = ", ".join(stored) or "none"
            raise ValueError(f"{self.plural}.{self.group}: set storage of one version, not {found}")
        kinds = sorted({each.type.__name__ for each in self.versions})
        if len(kinds) != 1:
            found = ", ".join(kinds)
            raise ValueError(f"{self.plural}.{self.group}: name the types alike, not {found}")

    @property
    def name(self) -> str:
        """The class name is the kind."""
        return self.stored_version.type.__name__

    @property
    def stored_version(self) -> CrdVersion:
        """The version in which objects are stored."""
        return next(each for each in self.versions if each.storage)
