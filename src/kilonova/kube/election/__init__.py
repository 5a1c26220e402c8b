"""Who writes: one leader among the copies of a process, elected on a Lease.

- A **candidate** watches the Lease and takes it when its holder let it go or let it expire.
- The **holder** renews it. If renewing fails for `renew_deadline`, it steps down by itself,
  well before anybody else may take the Lease (`lease_duration`).
- **Leadership** is the right to write, with an end that the local clock knows. Its **token**
  grows with each new leadership of the Lease.
- The **fence** is between a leader and the API: past the end of its leadership nothing that
  changes anything gets through, whatever the rest of the process believes.
"""

from kilonova.kube.election.elector import Elector
from kilonova.kube.election.fencing import FencedTransport, Leadership, LeadershipLost
from kilonova.kube.election.lease import Timing

__all__ = ["Elector", "FencedTransport", "Leadership", "LeadershipLost", "Timing"]
