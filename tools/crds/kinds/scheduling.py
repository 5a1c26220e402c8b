"""Kinds of `scheduling.kilonova.dev`."""

from kilonova.api import scheduling
from tools.crds.model import AGE, CrdKind, CrdVersion, PrinterColumn, count_column

_RESERVED = '.status.conditions[?(@.type=="Reserved")]'

KINDS = (
    CrdKind(
        scheduling.GROUP,
        "queues",
        ("kq",),
        (
            CrdVersion(
                scheduling.VERSION,
                scheduling.Queue,
                (
                    PrinterColumn("Parent", "string", ".spec.parent"),
                    PrinterColumn(
                        "Ready", "string", '.status.conditions[?(@.type=="Ready")].status'
                    ),
                    count_column("Pending", ".status.pendingGangs"),
                    PrinterColumn("GPUs", "string", r".status.allocated.nvidia\.com/gpu"),
                    PrinterColumn("Deserved", "string", r".spec.deserved.nvidia\.com/gpu"),
                    PrinterColumn("Limit", "string", r".spec.limit.nvidia\.com/gpu"),
                    count_column("Weight", ".spec.weight", wide=True),
                    count_column("Priority", ".spec.priority", wide=True),
                    AGE,
                ),
            ),
        ),
        namespaced=False,
    ),
    CrdKind(
        scheduling.GROUP,
        "reservations",
        ("rsv",),
        (
            CrdVersion(
                scheduling.VERSION,
                scheduling.Reservation,
                (
                    PrinterColumn("Phase", "string", ".status.phase"),
                    PrinterColumn("Reason", "string", f"{_RESERVED}.reason"),
                    PrinterColumn("Gang", "string", ".status.usedBy.name"),
                    PrinterColumn("Start", "string", ".spec.start"),
                    PrinterColumn("Expires", "string", ".status.expiresAt"),
                    PrinterColumn("Queue", "string", ".spec.queue", wide=True),
                    PrinterColumn("Message", "string", f"{_RESERVED}.message", wide=True),
                    AGE,
                ),
            ),
        ),
    ),
)
