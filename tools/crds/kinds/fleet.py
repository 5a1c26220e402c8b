"""Kinds of `fleet.kilonova.dev`."""

from kilonova.api import fleet
from tools.crds.model import AGE, CrdKind, CrdVersion, PrinterColumn, count_column

KINDS = (
    CrdKind(
        fleet.GROUP,
        "clusters",
        ("kcl",),
        (
            CrdVersion(
                fleet.VERSION,
                fleet.Cluster,
                (
                    PrinterColumn("Region", "string", ".spec.region"),
                    PrinterColumn("Health", "string", ".status.health"),
                    count_column("Instances", ".status.instances"),
                    count_column("Ready", ".status.readyInstances"),
                    PrinterColumn("Cordoned", "boolean", ".spec.cordoned"),
                    PrinterColumn("Last-Seen", "date", ".status.lastSeen"),
                    PrinterColumn("Reason", "string", ".status.reason", wide=True),
                    AGE,
                ),
            ),
        ),
        namespaced=False,
    ),
)
