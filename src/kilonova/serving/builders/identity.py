"""Which InferenceService an object belongs to. Pure."""

import hashlib
from dataclasses import dataclass
from typing import Any

import msgspec

from kilonova.api.group_kinds import GroupKind
from kilonova.api.grove import names as grove_names
from kilonova.api.json import JsonObject
from kilonova.api.meta import Metadata
from kilonova.api.pods.workload_owner import Owned, find_workload, workload_metadata
from kilonova.api.serving import GROUP, InferenceService, names
from kilonova.kube import Resource
from kilonova.kube.owner_references import build_owner_reference
from kilonova.serving.resources import INFERENCE_SERVICES

SERVICE_KIND = GroupKind(GROUP, INFERENCE_SERVICES.kind)

_HASH_LENGTH = 16


@dataclass(frozen=True, slots=True)
class Identity:
    """An InferenceService that exists."""

    metadata: Metadata
    owner: Resource[Any]
    """The kind that it is an object of: a ConfigMap in the namespaced mode."""

    @classmethod
    def of(cls, service: InferenceService, owner: Resource[Any] = INFERENCE_SERVICES) -> "Identity":
        """The identity of a service."""
        return cls(service.metadata, owner)

    @property
    def namespace(self) -> str:
        """The namespace of all its objects."""
        return self.metadata.namespace

    @property
    def name(self) -> str:
        """The name of the service."""
        return self.metadata.name

    @property
    def workload_labels(self) -> dict[str, str]:
        """The labels by which an object, or a pod, names the service as its workload."""
        return self._workload_metadata[0]

    @property
    def workload_annotations(self) -> dict[str, str]:
        """The annotations for the same."""
        return self._workload_metadata[1]

    @property
    def _workload_metadata(self) -> tuple[dict[str, str], dict[str, str]]:
        return workload_metadata(find_workload(Owned.from_metadata(SERVICE_KIND, self.metadata)))

    def build_metadata(
        self,
        name: str,
        labels: dict[str, str] | None = None,
        annotations: dict[str, str] | None = None,
    ) -> JsonObject:
        """The metadata of an object of the service."""
        return {
            "name": name,
            "namespace": self.namespace,
            "labels": {
                **(labels or {}),
                **self.workload_labels,
                grove_names.MANAGED_BY: names.MANAGER,
                names.SERVICE: self.name,
            },
            "annotations": {**(annotations or {}), **self.workload_annotations},
            "ownerReferences": [build_owner_reference(self.owner, self.metadata)],
        }

    def build_pod_labels(self, role: names.Role, group: str = "") -> dict[str, str]:
        """The labels of a pod, by which the caches find it."""
        of_group = {names.SERVER: group} if group else {}
        return {names.SERVICE: self.name, names.ROLE: role, **of_group}


def compute_hash(value: object) -> str:
    """A short hash of a value in JSON."""
    text = msgspec.json.encode(value, order="deterministic")
    return hashlib.sha256(text).hexdigest()[:_HASH_LENGTH]
