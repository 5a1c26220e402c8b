"""Jobs and CronJobs as their controllers see them."""

import msgspec

from kilonova.api.json import JsonObject
from kilonova.api.meta import Metadata
from kilonova.kube import Resource
from kilonova.kube.client.resource import unstructured_resource

TRACKING_FINALIZER = "batch.kubernetes.io/job-tracking"
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
CONTROLLER_UID = "batch.kubernetes.io/controller-uid"
JOB_CONTROLLER_NAME = "kubernetes.io/job-controller"


class Condition(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A condition of a job."""

    type: str
    status: str
    last_probe_time: str = ""
    last_transition_time: str = ""
    reason: str = ""
    message: str = ""


class ExitCodes(msgspec.Struct, frozen=True, rename="camel"):
    """The exit codes that a rule matches."""

    operator: str
    values: tuple[int, ...] = ()
    container_name: str | None = None


class PodConditionPattern(msgspec.Struct, frozen=True):
    """The pod condition that a rule matches."""

    type: str
    status: str = "True"


class FailureRule(msgspec.Struct, frozen=True, rename="camel"):
    """The action for pod failures that match."""

    action: str
    on_exit_codes: ExitCodes | None = None
    on_pod_conditions: tuple[PodConditionPattern, ...] = ()


class FailurePolicy(msgspec.Struct, frozen=True):
    """Rules, of which the first that matches a failed pod decides."""

    rules: tuple[FailureRule, ...] = ()


class SuccessRule(msgspec.Struct, frozen=True, rename="camel"):
    """Which indexes, or how many of them, are sufficient."""

    succeeded_indexes: str | None = None
    succeeded_count: int | None = None


class SuccessPolicy(msgspec.Struct, frozen=True):
    """Rules, of which any that matches completes the Job."""

    rules: tuple[SuccessRule, ...] = ()


class JobSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The spec of a Job."""

    template: JsonObject = {}
    parallelism: int = 1
    completions: int | None = None
    completion_mode: str = "NonIndexed"
    backoff_limit: int = 6
    backoff_limit_per_index: int | None = None
    max_failed_indexes: int | None = None
    active_deadline_seconds: int | None = None
    suspend: bool = False
    pod_failure_policy: FailurePolicy | None = None
    success_policy: SuccessPolicy | None = None
    pod_replacement_policy: str | None = None
    selector: JsonObject = {}
    manual_selector: bool = False
    managed_by: str | None = None
    ttl_seconds_after_finished: int | None = None


class UncountedPods(msgspec.Struct, frozen=True, omit_defaults=True):
    """Uids of pods that have finished and are not counted yet."""

    succeeded: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not self.succeeded and not self.failed


class JobStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The status of a Job."""

    conditions: tuple[Condition, ...] = ()
    start_time: str | None = None
    completion_time: str | None = None
    active: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int | None = None
    ready: int | None = None
    completed_indexes: str = ""
    failed_indexes: str | None = None
    uncounted_terminated_pods: UncountedPods | None = None

    def condition(self, type_: str) -> Condition | None:
        """The condition of that type, if it is True."""
        return next((c for c in self.conditions if c.type == type_ and c.status == "True"), None)


class Job(msgspec.Struct):
    """A job."""

    metadata: Metadata
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()

    @property
    def is_indexed(self) -> bool:
        return self.spec.completion_mode == "Indexed"

    @property
    def has_backoff_limit_per_index(self) -> bool:
        return self.spec.backoff_limit_per_index is not None

    @property
    def replaces_only_failed(self) -> bool:
        """Whether a terminating pod is replaced only once it has ended."""
        spec = self.spec
        return spec.pod_replacement_policy == "Failed" or spec.pod_failure_policy is not None

    @property
    def is_managed_here(self) -> bool:
        """Whether no other controller manages it (managedBy)."""
        return self.spec.managed_by in (None, JOB_CONTROLLER_NAME)

    @property
    def finished_condition(self) -> Condition | None:
        """The Complete or Failed condition, if it is True."""
        return self.status.condition("Complete") or self.status.condition("Failed")


class JobReference(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """An active Job of a CronJob."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    kind: str = ""
    api_version: str = ""
    resource_version: str = ""


class JobTemplate(msgspec.Struct, frozen=True):
    """The template of a CronJob's Jobs."""

    metadata: JsonObject = {}
    spec: JsonObject = {}


class CronJobSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The spec of a CronJob."""

    schedule: str = ""
    time_zone: str | None = None
    starting_deadline_seconds: int | None = None
    concurrency_policy: str = "Allow"
    suspend: bool = False
    job_template: JobTemplate = JobTemplate()
    successful_jobs_history_limit: int | None = None
    failed_jobs_history_limit: int | None = None


class CronJobStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The status of a CronJob."""

    active: tuple[JobReference, ...] = ()
    last_schedule_time: str | None = None
    last_successful_time: str | None = None


class CronJob(msgspec.Struct):
    """A CronJob."""

    metadata: Metadata
    spec: CronJobSpec = CronJobSpec()
    status: CronJobStatus = CronJobStatus()


JOBS = Resource("batch", "v1", "jobs", "Job", True, Job)
CRON_JOBS = Resource("batch", "v1", "cronjobs", "CronJob", True, CronJob)
NEW_PODS = unstructured_resource("", "v1", "pods", "Pod", True)
"""Pods to create, as JSON."""
