"""The options of `kilonova run agent`."""

from dataclasses import dataclass, field
from pathlib import Path

from kilonova.component.process.process import ProcessOptions
from kilonova.gpu.agent.context import AgentSettings

NAME = "kilonova-agent"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentOptions(ProcessOptions):
    """The options of the process; without a port there is no gRPC service."""

    node: str
    backend: str
    """`nvml`, `simulated:PERSONA` or `recorded:FILE`."""
    dcgm: str = ""
    """URL of a DCGM exporter that measures the GPUs; empty: the backend does."""
    state_dir: Path
    kubelet_dir: Path | None
    """None: no device plugin and no DRA driver."""
    cdi_dir: Path
    device_plugin: bool = True
    shares_per_gpu: int = 0
    """How many shares of each GPU the device plugin offers as `nvidia.com/gpu.shared`."""
    dra: bool = True
    dra_driver: str = "gpu.kilonova.dev"
    port: int | None
    exporter_port: int | None = None
    """Where metrics of the GPUs are served, or one of the next; None: nowhere."""
    certs: Path | None = None
    client_ca: Path | None = None
    settings: AgentSettings = field(default_factory=AgentSettings)
    may_reset: bool = True
