"""The questions that a server of the v2 protocol can be asked, over gRPC and over HTTP."""

from dataclasses import dataclass
from typing import Generic, TypeVar
from urllib.parse import quote

from google.protobuf.message import Message

from kilonova.serving.grpc import inference_pb2 as pb

A = TypeVar("A", bound=Message, covariant=True)


@dataclass(frozen=True, slots=True)
class Question(Generic[A]):
    """A question, and the type of its answer."""

    rpc: str
    """The method of the stub."""
    request: Message
    answer: type[A]
    path: str
    """The path over HTTP."""
    method: str = "GET"

    @property
    def memory_key(self) -> tuple[str, bytes]:
        """By which its last answer is remembered."""
        return self.rpc, self.request.SerializeToString(deterministic=True)


def ask_server_metadata() -> Question[pb.ServerMetadataResponse]:
    """The name, version and extensions of the server."""
    request = pb.ServerMetadataRequest()
    return Question("server_metadata", request, pb.ServerMetadataResponse, "/v2")


def ask_index() -> Question[pb.RepositoryIndexResponse]:
    """All models of the repository."""
    return Question(
        "repository_index",
        pb.RepositoryIndexRequest(),
        pb.RepositoryIndexResponse,
        "/v2/repository/index",
        "POST",
    )


def ask_statistics(name: str, version: str) -> Question[pb.ModelStatisticsResponse]:
    """The statistics of a model, or of all."""
    path = f"{_build_path(name, version)}/stats" if name else "/v2/models/stats"
    request = pb.ModelStatisticsRequest(name=name, version=version)
    return Question("model_statistics", request, pb.ModelStatisticsResponse, path)


def ask_model_ready(name: str, version: str) -> Question[pb.ModelReadyResponse]:
    """Whether a model takes requests."""
    request = pb.ModelReadyRequest(name=name, version=version)
    path = f"{_build_path(name, version)}/ready"
    return Question("model_ready", request, pb.ModelReadyResponse, path)


def ask_model_metadata(name: str, version: str) -> Question[pb.ModelMetadataResponse]:
    """The inputs and outputs of a model."""
    request = pb.ModelMetadataRequest(name=name, version=version)
    path = _build_path(name, version)
    return Question("model_metadata", request, pb.ModelMetadataResponse, path)


def ask_model_config(name: str, version: str) -> Question[pb.ModelConfigResponse]:
    """The configuration of a model."""
    request = pb.ModelConfigRequest(name=name, version=version)
    path = f"{_build_path(name, version)}/config"
    return Question("model_config", request, pb.ModelConfigResponse, path)


def _build_path(name: str, version: str) -> str:
    path = f"/v2/models/{quote(name, safe='')}"
    return f"{path}/versions/{quote(version, safe='')}" if version else path
