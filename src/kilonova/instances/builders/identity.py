"""Which instance an object belongs to. Pure."""

from dataclasses import dataclass, field

from kilonova.api.group_kinds import GroupKind
from kilonova.api.grove import names as grove_names
from kilonova.api.inference_engine import GROUP, InferenceEngineInstance, names
from kilonova.api.json import JsonObject
from kilonova.api.meta import Metadata
from kilonova.api.pods.workload_owner import Owned, Workload, find_workload, workload_metadata
from kilonova.instances.resources import INSTANCES
from kilonova.kube.owner_references import build_owner_reference

INSTANCE_KIND = GroupKind(GROUP, INSTANCES.kind)


@dataclass(frozen=True, slots=True)
class Identity:
    """An instance, or one that is only asked about and has no uid."""

    namespace: str
    name: str
    metadata: Metadata | None = None
    """Of the instance that exists."""
    labels: dict[str, str] = field(default_factory=dict[str, str])
    """Those that all its objects have, beside its name: its deployment and release."""

    @classmethod
    def of(cls, instance: InferenceEngineInstance) -> "Identity":
        """The identity of an instance that exists."""
        known = instance.metadata
        labels = {
            names.RELEASE: instance.spec.release,
            names.DEPLOYMENT: known.labels.get(names.DEPLOYMENT, ""),
        }
        present = {key: value for key, value in labels.items() if value}
        return cls(known.namespace, known.name, known, present)

    def build_metadata(self, name: str, allocation: int | None = None) -> JsonObject:
        """The metadata of an object of the instance; of one of its allocations, if it is."""
        labels, annotations = workload_metadata(self._workload)
        own = {grove_names.MANAGED_BY: names.MANAGER, names.MODEL_INSTANCE: self.name}
        if allocation is not None:
            own[names.ALLOCATION] = str(allocation)
        metadata: JsonObject = {
            "name": name,
            "namespace": self.namespace,
            "labels": {**self.labels, **labels, **own},
        }
        if annotations:
            metadata["annotations"] = annotations
        if self.metadata is not None and self.metadata.uid:
            metadata["ownerReferences"] = [build_owner_reference(INSTANCES, self.metadata)]
        return metadata

    @property
    def _workload(self) -> Workload:
        if self.metadata is None:
            return Workload(INSTANCE_KIND, self.namespace, self.name)
        return find_workload(Owned.from_metadata(INSTANCE_KIND, self.metadata))
