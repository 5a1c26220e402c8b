"""Jobs, CronJobs, and the TTL of finished Jobs.

- The **pod counts** of a Job are its running, succeeded and failed pods, and which indexes are
  complete.
- The **finish condition** is the condition that ends a Job: Complete or Failed.
- A pod is **tracked** while it has the Job's finalizer. It is counted by three writes, each of
  which may be the last before a crash: its uid is added to `uncountedTerminatedPods`, its finalizer
  is removed, its uid is replaced by a count. A pod is thus never counted twice, and never lost.

In `job`, `pod_counts`, `finish`, `pod_plan` and `pod_tracking` decide; `controller` acts.
"""

from collections.abc import Iterable

from kilonova.kube import Runnable
from kilonova.local.controllers.batch.cronjob.controller import CronJobController
from kilonova.local.controllers.batch.job.controller import JobController
from kilonova.local.controllers.batch.job.orphan_pods import OrphanPodController
from kilonova.local.controllers.batch.job.pods.claims import add_tracked_pods_index
from kilonova.local.controllers.batch.objects import CRON_JOBS, JOBS
from kilonova.local.controllers.batch.ttl_after_finished import TtlAfterFinishedController
from kilonova.local.controllers.context import ControllerContext
from kilonova.local.controllers.shared.indexes import pods_by_controller

__all__ = ["cron_job_controllers", "job_controllers", "ttl_after_finished_controllers"]


def job_controllers(context: ControllerContext) -> Iterable[Runnable]:
    """job-controller."""
    client, jobs = context.client_for("job-controller"), context.informer(JOBS)
    pods = pods_by_controller(context)
    add_tracked_pods_index(pods)
    events = context.recorder("job-controller")
    return [
        JobController(client, jobs, pods, events, context.clock).controller(),
        OrphanPodController(client, jobs, pods).controller(),
    ]


def cron_job_controllers(context: ControllerContext) -> Iterable[Runnable]:
    """cronjob-controller."""
    client, events = (
        context.client_for("cronjob-controller"),
        context.recorder("cronjob-controller"),
    )
    cron_jobs, jobs = context.informer(CRON_JOBS), context.informer(JOBS)
    return [CronJobController(client, cron_jobs, jobs, events, context.clock).controller()]


def ttl_after_finished_controllers(context: ControllerContext) -> Iterable[Runnable]:
    """ttl-after-finished-controller."""
    client = context.client_for("ttl-after-finished-controller")
    return [TtlAfterFinishedController(client, context.informer(JOBS), context.clock).controller()]
