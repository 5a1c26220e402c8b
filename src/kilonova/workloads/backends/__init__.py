"""What schedulers of others want to have of gangs, where a cluster has such schedulers.

Our own scheduler, and whoever reads PodGangs, needs nothing. Two others know gangs by objects of
their own, and a **backend** for each makes these from PodGangs: `kai` and `volcano`, pure builders.
A backend works only where the operator's settings name it; then

- `podgroups` keeps one PodGroup for each PodGang of that scheduler, by the PodGang's name;
- `stamps` marks pods, so that their scheduler finds the PodGroup;
- `kinds` is about kinds that need not be installed: nothing waits for them but their own backend;
- `queues` finds the queue that a set is in;
- `enabled` puts together what the settings ask for.

KAI has topologies as well; `workloads.topologies` keeps them, from ClusterTopologyBindings.
"""

KAI = "kai-scheduler"
VOLCANO = "volcano"
LPX = "lpx-scheduler"

BACKENDS = (KAI, VOLCANO)
"""Schedulers that get objects of their own."""
