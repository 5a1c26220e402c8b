"""Leader election on a lease: one writer among the replicas of a process.

- A **candidate** polls the lease and acquires it when its holder released it or let it expire.
- The **holder** renews it. If renewing fails for `renew_deadline`, it steps down by itself, well
  before another candidate may acquire the lease (`lease_duration`).
- A **lease store** holds the lease, and has conditional writes. `ApiLeaseStore` is a Lease of the
  API server.
- A **leadership** is one term as leader. It ends by the local clock. Its **token** (a fencing
  token) grows with each new term.
- The **fence** is between a leader and the API: after the end of its leadership no write passes,
  whatever the rest of the process believes.
"""

from kilonova.kube.election.api_lease import ApiLeaseStore
from kilonova.kube.election.fencing import FencedTransport, Leadership, LeadershipLost
from kilonova.kube.election.leader_elector import LeaderElector
from kilonova.kube.election.lease import LeaderElectionTiming
from kilonova.kube.election.lease_store import (
    LeaseConflict,
    LeaseRecord,
    LeaseStore,
    LeaseUnavailable,
    StoredLease,
)

__all__ = [
    "ApiLeaseStore",
    "FencedTransport",
    "LeaderElectionTiming",
    "LeaderElector",
    "Leadership",
    "LeadershipLost",
    "LeaseConflict",
    "LeaseRecord",
    "LeaseStore",
    "LeaseUnavailable",
    "StoredLease",
]
