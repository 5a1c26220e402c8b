"""Work that ends: Jobs, CronJobs, and the removal of jobs that ended long enough ago.

- A job's **tally** is what its pods amount to: running, succeeded and failed ones, and which
  indexes are done.
- Its **verdict** is the condition that ends it, where one holds.
- A pod is **tracked** while it has the job's finalizer. It is counted by three writes, each of
  which may be the last before a crash: its uid goes into the status, its finalizer goes, its uid
  becomes a number. A pod is thus never counted twice, and never lost.

`tally.py`, `verdict.py`, `pods.py` and `tracking.py` decide; `jobs.py` acts.
"""

from collections.abc import Iterable

from kilonova.kube import Part
from kilonova.local.controllers.batch.claims import index_pods
from kilonova.local.controllers.batch.cronjobs import CronJobController
from kilonova.local.controllers.batch.jobs import JobController
from kilonova.local.controllers.batch.objects import CRON_JOBS, JOBS
from kilonova.local.controllers.batch.orphans import OrphanedPods
from kilonova.local.controllers.batch.ttl import FinishedJobs
from kilonova.local.controllers.indexes import pods_by_controller
from kilonova.local.controllers.workshop import Workshop

__all__ = ["cron_job_parts", "finished_job_parts", "job_parts"]


def job_parts(workshop: Workshop) -> Iterable[Part]:
    """job-controller."""
    client, jobs = workshop.account("job-controller"), workshop.cache(JOBS)
    pods = pods_by_controller(workshop)
    index_pods(pods)
    events = workshop.recorder("job-controller")
    return [
        JobController(client, jobs, pods, events, workshop.clock).controller(),
        OrphanedPods(client, jobs, pods).controller(),
    ]


def cron_job_parts(workshop: Workshop) -> Iterable[Part]:
    """cronjob-controller."""
    client, events = workshop.account("cronjob-controller"), workshop.recorder("cronjob-controller")
    cron_jobs, jobs = workshop.cache(CRON_JOBS), workshop.cache(JOBS)
    return [CronJobController(client, cron_jobs, jobs, events, workshop.clock).controller()]


def finished_job_parts(workshop: Workshop) -> Iterable[Part]:
    """ttl-after-finished-controller."""
    client = workshop.account("ttl-after-finished-controller")
    return [FinishedJobs(client, workshop.cache(JOBS), workshop.clock).controller()]
