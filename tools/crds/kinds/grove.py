"""Kinds of `grove.io`."""

from kilonova.api import grove
from tools.crds.model import AGE, CrdKind, CrdVersion, PrinterColumn, Scale, count_column

_PROGRESS = ".status.updateProgress."
_BREACHED = '.status.conditions[?(@.type=="MinAvailableBreached")].status'

KINDS = (
    CrdKind(
        grove.GROUP,
        "podcliquesets",
        ("pcs",),
        (
            CrdVersion(
                grove.VERSION,
                grove.PodCliqueSet,
                (
                    count_column("Replicas", ".spec.replicas"),
                    count_column("Available", ".status.availableReplicas"),
                    count_column("Updated", ".status.updatedReplicas"),
                    count_column("PCLQs-Updated", _PROGRESS + "updatedPodCliquesCount"),
                    count_column("PCLQs-Total", _PROGRESS + "totalPodCliquesCount"),
                    count_column("PCSGs-Updated", _PROGRESS + "updatedPodCliqueScalingGroupsCount"),
                    count_column("PCSGs-Total", _PROGRESS + "totalPodCliqueScalingGroupsCount"),
                    AGE,
                ),
                scale=Scale(".status.hpaPodSelector"),
            ),
        ),
    ),
    CrdKind(
        grove.GROUP,
        "podcliques",
        ("pclq",),
        (
            CrdVersion(
                grove.VERSION,
                grove.PodClique,
                (
                    count_column("MinAvail", ".spec.minAvailable"),
                    count_column("Replicas", ".spec.replicas"),
                    count_column("Ready", ".status.readyReplicas"),
                    count_column("Scheduled", ".status.scheduledReplicas"),
                    count_column("Updated", ".status.updatedReplicas"),
                    count_column("Gated", ".status.scheduleGatedReplicas", wide=True),
                    PrinterColumn("MinBreached", "string", _BREACHED, wide=True),
                    AGE,
                ),
                scale=Scale(".status.hpaPodSelector"),
            ),
        ),
    ),
    CrdKind(
        grove.GROUP,
        "podcliquescalinggroups",
        ("pcsg",),
        (
            CrdVersion(
                grove.VERSION,
                grove.PodCliqueScalingGroup,
                (
                    count_column("MinAvail", ".spec.minAvailable"),
                    count_column("Replicas", ".spec.replicas"),
                    count_column("Available", ".status.availableReplicas"),
                    count_column("Scheduled", ".status.scheduledReplicas"),
                    count_column("Updated", ".status.updatedReplicas"),
                    count_column("PCLQs-Updated", _PROGRESS + "updatedPodCliquesCount"),
                    count_column("PCLQs-Total", _PROGRESS + "totalPodCliquesCount"),
                    PrinterColumn("MinBreached", "string", _BREACHED, wide=True),
                    AGE,
                ),
                scale=Scale(".status.selector"),
            ),
        ),
    ),
    CrdKind(
        grove.GROUP,
        "clustertopologybindings",
        ("ct",),
        (
            CrdVersion(
                grove.VERSION,
                grove.ClusterTopologyBinding,
                (PrinterColumn("Domains", "string", ".spec.levels[*].domain"), AGE),
            ),
        ),
        namespaced=False,
    ),
)
