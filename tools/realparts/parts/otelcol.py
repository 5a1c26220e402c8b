"""An OpenTelemetry collector that receives OTLP and prints what it gets.

Its sources are what the collector's builder wrote from `locks/otelcol/builder.yaml`.
"""

from dataclasses import dataclass
from pathlib import Path

from tools.realparts.part import CachedPart
from tools.realparts.progress import Progress
from tools.realparts.sources.go_modules import LOCKS, GoModules

COMMAND = "otelcol"
_GO = GoModules(lock="otelcol", commands={COMMAND: "."})


@dataclass(frozen=True)
class GeneratedCollector:
    """The build of the generated sources, which are pinned with the modules."""

    files: tuple[str, ...] = _GO.files

    @property
    def pins(self) -> bytes:
        sources = sorted((LOCKS / _GO.lock).glob("*.go"))
        return b"".join((_GO.pins, *(each.read_bytes() for each in sources)))

    def make(self, folder: Path, progress: Progress) -> str | None:
        return _GO.make(folder, progress)


PART = CachedPart("otelcol", "v0.149.0", GeneratedCollector())
