"""Settings of a model server."""

from dataclasses import dataclass
from pathlib import Path

from kilonova.component.failure import WrongUsage

HTTP_PORT, GRPC_PORT, METRICS_PORT = 8000, 8001, 8002
MAX_REQUEST_BYTES = 256 << 20
DRAIN_SECONDS = 3.0
FINISH_SECONDS = 60.0
_MAX_MESSAGE = (1 << 31) - 1
"""Of gRPC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """The settings from the flags of `kilonova serve-model`. Times in seconds."""

    host: str = "0.0.0.0"  # noqa: S104 - a server of a pod
    http_port: int = HTTP_PORT
    grpc_port: int = GRPC_PORT
    metrics_port: int = METRICS_PORT
    """Port 0 takes a free one."""
    model_repository: Path | None = None
    loads_all: bool = True
    """Whether all models of the repository are loaded at the start, or only those of `models`."""
    models: tuple[str, ...] = ()
    """`NAME[,option=value…]`: models of the repository, or built-in ones with options."""
    llms: tuple[str, ...] = ()
    """`NAME[,option=value…]`: language models."""
    otlp_endpoint: str = ""
    max_request_bytes: int = MAX_REQUEST_BYTES
    drain_delay: float = DRAIN_SECONDS
    """How long requests are still accepted after SIGTERM, while the server is not ready."""
    drain_timeout: float = FINISH_SECONDS
    """How long requests in flight may take after that."""

    def __post_init__(self) -> None:
        if not 1 <= self.max_request_bytes <= _MAX_MESSAGE:
            raise WrongUsage(
                f"--max-request-bytes is {self.max_request_bytes}: use 1 to {_MAX_MESSAGE}"
            )
        if self.model_repository is not None and not self.model_repository.is_dir():
            raise WrongUsage(f"--model-repository {self.model_repository} is not a directory")
