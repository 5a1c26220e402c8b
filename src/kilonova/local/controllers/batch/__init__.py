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
from kilonova.local.controllers.batch.jobs import JobController
from kilonova.local.controllers.batch.objects import JOBS
from kilonova.local.controllers.batch.orphans import OrphanedPods
from kilonova.local.controllers.indexes import pods_by_controller
from kilonova.local.controllers.workshop import Workshop

__all__ = ["job_parts"]


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
