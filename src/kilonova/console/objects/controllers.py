"""Pod controllers of Kubernetes: Deployments, StatefulSets and Jobs."""

import msgspec

from kilonova.api.meta import Condition
from kilonova.console.objects.metadata import NamespacedMeta
from kilonova.console.objects.pods import PodAnnotations, PodLabels, PodSpec
from kilonova.kube import Resource


class WorkloadMeta(NamespacedMeta, frozen=True, gc=False, rename="camel", kw_only=True):
    """Metadata of a pod controller; it may have the same labels as its pods."""

    labels: PodLabels = PodLabels()
    annotations: PodAnnotations = PodAnnotations()


class _TemplateMeta(msgspec.Struct, frozen=True, gc=False):
    labels: PodLabels = PodLabels()


class _Template(msgspec.Struct, frozen=True, gc=False):
    metadata: _TemplateMeta = _TemplateMeta()
    spec: PodSpec = PodSpec()


class _RollingUpdate(msgspec.Struct, frozen=True, gc=False):
    partition: int | None = None


class _Strategy(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    type: str = ""
    rolling_update: _RollingUpdate | None = None


class _Spec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    replicas: int = 1
    template: _Template = _Template()
    update_strategy: _Strategy = _Strategy()


class _Status(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    replicas: int = 0
    ready_replicas: int = 0
    updated_replicas: int = 0
    available_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""
    conditions: tuple[Condition, ...] = ()


class ReplicatedWorkload(msgspec.Struct, gc=False):
    """The fields shown of a Deployment or StatefulSet."""

    metadata: WorkloadMeta
    spec: _Spec = _Spec()
    status: _Status = _Status()


class _JobSpec(msgspec.Struct, frozen=True, gc=False):
    parallelism: int = 1
    completions: int | None = None
    suspend: bool = False
    template: _Template = _Template()


class _JobStatus(msgspec.Struct, frozen=True, gc=False):
    active: int = 0
    ready: int = 0
    succeeded: int = 0
    failed: int = 0
    conditions: tuple[Condition, ...] = ()


class Job(msgspec.Struct, gc=False):
    """The fields shown of a Job."""

    metadata: WorkloadMeta
    spec: _JobSpec = _JobSpec()
    status: _JobStatus = _JobStatus()


DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment", True, ReplicatedWorkload)
STATEFUL_SETS = Resource("apps", "v1", "statefulsets", "StatefulSet", True, ReplicatedWorkload)
JOBS = Resource("batch", "v1", "jobs", "Job", True, Job)
