"""Labels and annotations by which people tell the scheduler what they want."""

SCHEDULER = "kilonova-scheduler"
"""Pods whose `schedulerName` this is are placed by our scheduler."""

_PREFIX = "scheduling.kilonova.dev/"

QUEUE = _PREFIX + "queue"
"""Label of a PodGang or a pod: the queue that it counts in."""
KAI_QUEUE = "kai.scheduler/queue"
"""The same, as KAI's users write it."""
DURATION = _PREFIX + "expected-duration"
"""Annotation of a PodGang or a pod: how long it will run, as `2h30m`."""
PREEMPTIBLE = _PREFIX + "preemptible"
"""Annotation of a PodGang or a pod: `false` if it must never make room for others."""
SEGMENT = _PREFIX + "segment"
"""Annotation of pods of a group: `SIZE@LEVEL`, so many of them in order within one domain of a
level, which is the key of a node label: `4@example.com/rack`."""
AVOID = _PREFIX + "avoid-nodes"
"""Annotation of a PodGang or a pod: names of nodes on which it failed, separated by commas."""
RESERVATION = _PREFIX + "reservation"
"""Annotation of a PodGang or a pod: the Reservation of its namespace whose room it takes."""
