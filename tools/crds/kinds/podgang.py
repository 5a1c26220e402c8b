"""Kinds of `scheduler.grove.io`."""

from kilonova.api import podgang
from tools.crds.model import AGE, CrdKind, CrdVersion, PrinterColumn

KINDS = (
    CrdKind(
        podgang.GROUP,
        "podgangs",
        ("pg",),
        (
            CrdVersion(
                podgang.VERSION,
                podgang.PodGang,
                (PrinterColumn("Phase", "string", ".status.phase"), AGE),
            ),
        ),
    ),
)
