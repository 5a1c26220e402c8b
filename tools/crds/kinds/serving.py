"""Kinds of `serving.kilonova.dev`."""

from kilonova.api import serving
from tools.crds.model import AGE, CrdKind, CrdVersion, PrinterColumn, count_column

KINDS = (
    CrdKind(
        serving.GROUP,
        "inferenceservices",
        ("isvc",),
        (
            CrdVersion(
                serving.VERSION,
                serving.InferenceService,
                (
                    PrinterColumn("Phase", "string", ".status.phase"),
                    count_column("Ready", ".status.ready"),
                    count_column("Replicas", ".status.replicas"),
                    PrinterColumn("URL", "string", ".status.url"),
                    PrinterColumn("gRPC", "string", ".status.grpcAddress", wide=True),
                    count_column("Gateways", ".status.gateways", wide=True),
                    AGE,
                ),
            ),
        ),
    ),
)
