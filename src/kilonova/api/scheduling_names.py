"""Scheduler names, and the labels and annotations by which users configure scheduling."""

SCHEDULER_NAME = "kilonova-scheduler"
"""The `schedulerName` of pods that our scheduler handles."""
DEFAULT_SCHEDULER_NAME = "default-scheduler"
"""The `schedulerName` of pods that name none (corev1.DefaultSchedulerName): kube-scheduler's."""
EMBEDDED_SCHEDULER_NAMES = frozenset({SCHEDULER_NAME, DEFAULT_SCHEDULER_NAME})
"""In an embedded cluster, pods without a `schedulerName` are scheduled too."""

_PREFIX = "scheduling.kilonova.dev/"

QUEUE = _PREFIX + "queue"
"""Label of a PodGang or a pod: the queue that it is charged to."""
KAI_QUEUE = "kai.scheduler/queue"
"""The same, as used with the KAI scheduler."""
DURATION = _PREFIX + "expected-duration"
"""Annotation of a PodGang or a pod: its expected run time, as `2h30m`."""
PREEMPTIBLE = _PREFIX + "preemptible"
"""Annotation of a PodGang or a pod: `false` if it must never be preempted."""
SEGMENT = _PREFIX + "segment"
"""Annotation of pods of a group: `SIZE@LEVEL` packs each SIZE consecutive pods into one domain of a
level, which is the key of a node label: `4@example.com/rack`."""
AVOID_NODES = _PREFIX + "avoid-nodes"
"""Annotation of a PodGang or a pod: names of nodes on which it failed, separated by commas."""
RESERVATION = _PREFIX + "reservation"
"""Annotation of a PodGang or a pod: the Reservation of its namespace whose capacity it uses."""
