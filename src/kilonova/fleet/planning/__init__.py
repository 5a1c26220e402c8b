"""Which cluster runs how many instances of which release. Pure: no I/O, no clock.

`plan_fleet` is one pass over all clusters and deployments. Its input is what people declare, what
members have reported, and the statuses that the previous pass computed; its output are the new
statuses, what each member is to run, events and decisions. Nothing else is remembered, so that any
manager continues where another one ended.

- A cluster is **unreachable** while it does not report: first **suspect**, when nothing about it is
  changed and its instances count as they were observed last; then **lost** for a deployment, when
  its instances are placed elsewhere.
- A cluster that was lost and reports again is **settling** until it has been reachable for a while.
- The fleet is **frozen** while half of it is unreachable at once: then the cause is rather on the
  manager's side.
- The **target** of a cluster is the number of instances that it should have; it is **desired** as
  far as that leaves the asked total ready.
- A **booking** is capacity that an instance is to have and does not have yet.
- A **probe** is a deployment with 0 replicas, by which a cluster reports how many would fit.
"""

from kilonova.fleet.planning.model import (
    ClusterInput,
    Decision,
    FleetEvent,
    FleetInput,
    FleetPlan,
    PlanSettings,
)
from kilonova.fleet.planning.planner import plan_fleet

__all__ = [
    "ClusterInput",
    "Decision",
    "FleetEvent",
    "FleetInput",
    "FleetPlan",
    "PlanSettings",
    "plan_fleet",
]
