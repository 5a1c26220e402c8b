"""Backends for other gang schedulers: KAI and Volcano.

Kilonova's scheduler and others that read PodGangs need no backend. KAI and Volcano represent gangs
by PodGroups of their own; a *backend* builds those from PodGangs. A backend runs only if the
operator's settings name it.

- `interface`: the SchedulerBackend protocol; `kai` and `volcano` implement it, as pure builders.
- `pod_group_controller` writes one PodGroup for each PodGang of that scheduler, with the same name.
- `metadata`: labels and annotations by which the scheduler finds the PodGroup of a pod.
- `optional_kinds`: CRDs that need not be installed; only their own backend waits for them.
- `queues`: the queue of a set.
- `assembly` builds what the settings enable; it is the entry point.

KAI also has Topologies; `controllers.topology` derives them from ClusterTopologyBindings.
"""

KAI = "kai-scheduler"
VOLCANO = "volcano"
LPX = "lpx-scheduler"

BACKENDS = (KAI, VOLCANO)
"""Schedulers that get PodGroups."""
