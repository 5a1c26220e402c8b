"""Kinds of `inference-engine.groq.io`."""

from kilonova.api import inference_engine as engine
from tools.crds.model import AGE, CrdKind, CrdVersion, PrinterColumn, Scale, count_column

KINDS = (
    CrdKind(
        engine.GROUP,
        "inferenceengineinstances",
        ("iei",),
        (
            CrdVersion(
                engine.VERSION,
                engine.InferenceEngineInstance,
                (
                    PrinterColumn("Model", "string", ".spec.model"),
                    count_column("TargetAgents", ".status.targetAgents"),
                    count_column("ReadyAgents", ".status.readyAgents"),
                    count_column("PendingAgents", ".status.pendingAgents"),
                    PrinterColumn("Phase", "string", ".status.phase", wide=True),
                    PrinterColumn("Domain", "string", ".status.domain", wide=True),
                    count_column("Repairs", ".status.repairs.recreated", wide=True),
                    PrinterColumn("Age", "date", ".metadata.creationTimestamp", wide=True),
                ),
            ),
        ),
    ),
    CrdKind(
        engine.GROUP,
        "inferenceenginedeployments",
        ("ied",),
        (
            CrdVersion(
                engine.VERSION,
                engine.InferenceEngineDeployment,
                (
                    PrinterColumn("Release", "string", ".spec.release"),
                    count_column("Desired", ".spec.replicas"),
                    count_column("Ready", ".status.readyReplicas"),
                    count_column("Updated", ".status.updatedReplicas"),
                    count_column("Unallocatable", ".status.unallocatable"),
                    count_column("Additional", ".status.additionalReplicas", wide=True),
                    AGE,
                ),
                scale=Scale(".status.selector"),
            ),
        ),
    ),
    CrdKind(
        engine.GROUP,
        "releases",
        ("gr",),
        (
            CrdVersion(
                engine.VERSION,
                engine.Release,
                (
                    PrinterColumn("Model", "string", ".spec.model"),
                    PrinterColumn("Build", "string", ".spec.build"),
                    PrinterColumn("Health", "string", ".status.health"),
                    PrinterColumn("Masked", "boolean", ".status.masked"),
                    AGE,
                ),
            ),
        ),
    ),
    CrdKind(
        engine.GROUP,
        "deployments",
        ("gd",),
        (
            CrdVersion(
                engine.VERSION,
                engine.Deployment,
                (
                    PrinterColumn("Release", "string", ".status.release"),
                    count_column("Desired", ".status.desired"),
                    count_column("Observed", ".status.observed"),
                    count_column("Ready", ".status.ready"),
                    PrinterColumn("Wave", "string", ".status.currentWave"),
                    count_column("Unallocatable", ".status.unallocatable", wide=True),
                    count_column("Relocated", ".status.relocated", wide=True),
                    AGE,
                ),
                scale=Scale(status_replicas_path=".status.observed"),
            ),
        ),
    ),
)
