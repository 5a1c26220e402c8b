"""What a target is built from, beside its address."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

Protocol = Literal["v2-grpc", "v2-http", "openai", "http"]


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Certificates of a connection, PEM."""

    ca: Path | None = None
    """The authority of the server; None for those of the system."""
    certificate: Path | None = None
    key: Path | None = None
    is_verified: bool = True


@dataclass(frozen=True, slots=True)
class CompletionOptions:
    """Requests of the OpenAI API that are generated."""

    prompt_tokens: int = 64
    """About: a word of the prompt is about a token."""
    max_tokens: int = 64
    is_stream: bool = True


@dataclass(frozen=True, slots=True)
class TensorOptions:
    """Inputs of v2 requests that are generated."""

    batch: int = 1
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetOptions:
    """How requests are made."""

    model: str = ""
    """Empty for the only one that the server has."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """Of every request; they may be secret."""
    bodies: tuple[Any, ...] = ()
    """Requests in JSON, used in turn; empty for generated ones."""
    completion: CompletionOptions = CompletionOptions()
    tensors: TensorOptions = TensorOptions()
    tls: TlsFiles = TlsFiles()
    connections: int = 4
    """Of gRPC, which sends many requests over one."""
    seed: int = 0
