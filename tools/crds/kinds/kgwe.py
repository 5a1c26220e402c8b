"""Kinds of `kgwe.nvidia.io`."""

from kilonova.api import kgwe
from tools.crds.model import AGE, CrdKind, CrdVersion, PrinterColumn, count_column

_SCHEDULED = '.status.conditions[?(@.type=="Scheduled")]'

KINDS = (
    CrdKind(
        kgwe.GROUP,
        "gpuworkloads",
        ("gw", "gpuw"),
        (
            CrdVersion(
                kgwe.VERSION,
                kgwe.GPUWorkload,
                (
                    count_column("GPUs", ".spec.gpuRequirements.count"),
                    PrinterColumn("Status", "string", ".status.phase"),
                    PrinterColumn("Node", "string", ".status.scheduledNode"),
                    count_column("Pods", ".status.pods", wide=True),
                    count_column("Score", ".status.schedulingScore", wide=True),
                    count_column("Priority", ".spec.priority", wide=True),
                    PrinterColumn("Message", "string", f"{_SCHEDULED}.message", wide=True),
                    AGE,
                ),
            ),
        ),
    ),
    CrdKind(
        kgwe.GROUP,
        "migstrategies",
        ("migs",),
        (
            CrdVersion(
                kgwe.VERSION,
                kgwe.MIGStrategy,
                (
                    PrinterColumn("Nodes", "string", ".spec.nodeSelector"),
                    PrinterColumn("Rebalance", "boolean", ".spec.allowDynamicReconfig"),
                    count_column("Priority", ".spec.priority", wide=True),
                    PrinterColumn(
                        "Ready", "string", '.status.conditions[?(@.type=="Ready")].status'
                    ),
                    AGE,
                ),
            ),
        ),
        namespaced=False,
    ),
    CrdKind(
        kgwe.GROUP,
        "gpubudgets",
        ("gb", "gpub"),
        (
            CrdVersion(
                kgwe.VERSION,
                kgwe.GPUBudget,
                (
                    PrinterColumn("Limit", "string", ".spec.limit"),
                    PrinterColumn("Spent", "string", ".status.currentSpend"),
                    PrinterColumn("Utilization", "string", ".status.utilizationPercent"),
                    PrinterColumn("Period", "string", ".spec.period"),
                    AGE,
                ),
            ),
        ),
    ),
)
