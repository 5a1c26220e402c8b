"""Asks servers, over gRPC, or over HTTP where they have no other port."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

import aiohttp
import grpc
import grpc.aio
from google.protobuf.message import Message

from kilonova.kube.grpc import ClientSettings, GrpcClient
from kilonova.kube.observability.structured_logging import get_logger
from kilonova.serving.controlplane.answers.json_forms import decode_message
from kilonova.serving.controlplane.answers.questions import Question
from kilonova.serving.controlplane.metrics import ControlPlaneMetrics
from kilonova.serving.gateway.model import Endpoint
from kilonova.serving.grpc import inference_pb2 as pb
from kilonova.serving.grpc.inference_grpc import GRPCInferenceServiceStub

_log = get_logger(__name__)

ANSWER_SECONDS = 3.0
"""How long a server may take to answer."""
_MAX_ANSWER_BYTES = 64 * 1024 * 1024
_MAX_CONNECTIONS = 512
"""Connections that are kept, over all services; they cost a server nothing."""

_NEGATIVE = (
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.UNIMPLEMENTED,
)
"""Statuses by which a server indicates that it has no answer: the server itself is well."""

A = TypeVar("A", bound=Message)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A server answered that it has no answer."""

    message: str


class ServerClients:
    """The connections to servers."""

    def __init__(self, metrics: ControlPlaneMetrics) -> None:
        self._metrics = metrics
        self._clients: dict[str, GrpcClient] = {}
        self._session: aiohttp.ClientSession | None = None

    async def ask_all(
        self, endpoints: Sequence[Endpoint], question: Question[A]
    ) -> list[A | Refusal]:
        """The answers of all servers that answer in time."""
        answers = await asyncio.gather(*(self._ask(each, question) for each in endpoints))
        return [each for each in answers if each is not None]

    async def fetch_all(self, endpoints: Sequence[Endpoint], path: str) -> list[bytes]:
        """What all servers that answer in time have at a path, over HTTP."""
        answers = await asyncio.gather(*(self._fetch(each, path) for each in endpoints))
        return [each for each in answers if each is not None]

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
        for client in self._clients.values():
            await client.close()
        self._clients.clear()

    async def _ask(self, endpoint: Endpoint, question: Question[A]) -> A | Refusal | None:
        try:
            if endpoint.grpc_port:
                return await self._ask_grpc(endpoint, question)
            return await self._ask_http(endpoint, question)
        except (grpc.aio.AioRpcError, aiohttp.ClientError, TimeoutError, ValueError) as error:
            self._note_failure(endpoint, question.rpc, error)
            return None

    async def _ask_grpc(self, endpoint: Endpoint, question: Question[A]) -> A | Refusal:
        stub = await self._get_stub(f"{endpoint.address}:{endpoint.grpc_port}")
        try:
            return cast("A", await getattr(stub, question.rpc)(question.request))
        except grpc.aio.AioRpcError as error:
            if error.code() in _NEGATIVE:
                return Refusal(error.details() or error.code().name)
            raise

    async def _ask_http(self, endpoint: Endpoint, question: Question[A]) -> A | Refusal:
        url = f"http://{endpoint.address}:{endpoint.http_port}{question.path}"
        async with self._get_session().request(question.method, url) as response:
            body = await response.read()
            if question.answer is pb.ModelReadyResponse:
                return cast("A", pb.ModelReadyResponse(ready=response.status == 200))
            if response.status in (400, 404, 501):
                return Refusal(body.decode(errors="replace")[:1024])
            response.raise_for_status()
            return decode_message(question.answer, body)

    async def _fetch(self, endpoint: Endpoint, path: str) -> bytes | None:
        url = f"http://{endpoint.address}:{endpoint.http_port}{path}"
        try:
            async with self._get_session().get(url) as response:
                response.raise_for_status()
                return await response.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            self._note_failure(endpoint, path, error)
            return None

    async def _get_stub(self, target: str) -> GRPCInferenceServiceStub:
        client = self._clients.pop(target, None)
        if client is None:
            client = GrpcClient(
                target,
                settings=ClientSettings(
                    deadline=ANSWER_SECONDS, attempts=1, max_reply_bytes=_MAX_ANSWER_BYTES
                ),
            )
        self._clients[target] = client  # the last ones that were used are last
        if len(self._clients) > _MAX_CONNECTIONS:
            await self._clients.pop(next(iter(self._clients))).close()
        return client.stub(GRPCInferenceServiceStub)

    def _get_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=ANSWER_SECONDS), trust_env=False
            )
        return self._session

    def _note_failure(self, endpoint: Endpoint, question: str, error: Exception) -> None:
        self._metrics.count_failed_question()
        text = error.details() if isinstance(error, grpc.aio.AioRpcError) else str(error)
        _log.warning(
            "server left out of an answer",
            pod=endpoint.pod,
            question=question,
            error=text or type(error).__name__,
        )
