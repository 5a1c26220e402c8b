"""`envoy.service.auth.v3.Authorization` over gRPC: holds requests."""

from __future__ import annotations

from typing import Any, TypeAlias

import grpc
import grpc.aio

from kilonova.kube.grpc import GrpcService
from kilonova.serving.controlplane.ads.messages import decode_check, encode_check
from kilonova.serving.controlplane.ads.service import get_refusal_code
from kilonova.serving.controlplane.authentication import Authenticator, CallRefused
from kilonova.serving.controlplane.holds.answer import CheckAnswer, build_check_answer
from kilonova.serving.controlplane.holds.requests import HeldRequestQueue, HoldUnavailable, Wanted
from kilonova.serving.gateway.control_plane_calls import GROUP_EXTENSION, MODEL_EXTENSION

NAME = "envoy.service.auth.v3.Authorization"

_RETRY_AFTER_SECONDS = 5

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


class HoldService:
    """Answers each check when the group that it names has a server."""

    def __init__(self, held: HeldRequestQueue, authenticator: Authenticator) -> None:
        self._held = held
        self._authenticator = authenticator

    def build_service(self) -> GrpcService:
        """The service for a server."""
        handler = grpc.unary_unary_rpc_method_handler(
            self.check,  # pyright: ignore[reportArgumentType]  # of asyncio
            request_deserializer=decode_check,
            response_serializer=encode_check,
        )
        return GrpcService(NAME, {"Check": handler})

    async def check(self, extensions: dict[str, str], context: Context) -> CheckAnswer:
        """Hold a request."""
        try:
            key = self._authenticator.verify_call(context.invocation_metadata() or ())
            wanted = Wanted(
                key, extensions.get(GROUP_EXTENSION, ""), extensions.get(MODEL_EXTENSION, "")
            )
            outcome = await self._held.hold(wanted)
        except CallRefused as error:
            await context.abort(get_refusal_code(error), str(error))
            raise
        except HoldUnavailable as error:
            await context.abort(grpc.StatusCode.UNAVAILABLE, str(error))
            raise
        return build_check_answer(outcome, wanted.group, _RETRY_AFTER_SECONDS)
