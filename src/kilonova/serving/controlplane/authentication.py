"""Whether a call comes from a gateway of the service that it names."""

import hmac
from collections.abc import Callable, Iterable
from typing import Protocol

from kilonova.api.serving import names
from kilonova.kube import Store
from kilonova.kube.observability.structured_logging import get_logger
from kilonova.serving.builders.gateway_secret import read_token
from kilonova.serving.controlplane.metrics import ControlPlaneMetrics
from kilonova.serving.gateway.control_plane_calls import (
    SERVICE_HEADER,
    TOKEN_HEADER,
    derive_call_token,
    parse_service,
)
from kilonova.serving.gateway.model import ServiceKey
from kilonova.serving.resources import DataObject

_log = get_logger(__name__)

_BEARER = "Bearer "

Header = tuple[str, str | bytes]


class CallRefused(Exception):
    """The call is not answered. `is_temporary` if the service is not known (yet)."""

    def __init__(self, message: str, *, is_temporary: bool = False) -> None:
        super().__init__(message)
        self.is_temporary = is_temporary


class TokenSource(Protocol):
    """The tokens of gateways."""

    def find(self, key: ServiceKey) -> str | None:
        """The token of the gateways of a service; None if there is none yet."""
        ...


class StoredTokens:
    """The tokens in the Secrets of gateways."""

    def __init__(self, gateway_secrets: Store[DataObject]) -> None:
        self._store = gateway_secrets

    def find(self, key: ServiceKey) -> str | None:
        """The token of the gateways of a service; None if there is none yet."""
        return read_token(self._store.get((key[0], names.build_gateway(key[1])))) or None


class Authenticator:
    """Verifies calls by the token of the service that they name."""

    def __init__(self, tokens: TokenSource, metrics: ControlPlaneMetrics) -> None:
        self._tokens = tokens
        self._metrics = metrics

    def verify_stream(self, service: str, metadata: Iterable[Header]) -> ServiceKey:
        """The service of an ADS stream; `CallRefused` if it does not have its token."""
        value = _read_headers(metadata).get("authorization", "")
        token = value[len(_BEARER) :] if value.startswith(_BEARER) else ""
        return self._verify(service, token, lambda expected: expected)

    def verify_call(self, metadata: Iterable[Header]) -> ServiceKey:
        """The service of any other call; `CallRefused` if it does not have its token."""
        headers = _read_headers(metadata)
        token = headers.get(TOKEN_HEADER, "")
        return self._verify(headers.get(SERVICE_HEADER, ""), token, derive_call_token)

    def _verify(self, service: str, token: str, derive: Callable[[str], str]) -> ServiceKey:
        key = parse_service(service)
        if key is None:
            raise self._refuse(service, "names no service")
        expected = self._tokens.find(key)
        if expected is None:
            raise CallRefused(f"service {service} is not known", is_temporary=True)
        if not hmac.compare_digest(derive(expected).encode(), token.encode()):
            raise self._refuse(service, "has a wrong token")
        return key

    def _refuse(self, service: str, reason: str) -> CallRefused:
        self._metrics.count_refusal()
        _log.warning("call of a gateway refused", service=service, reason=reason)
        return CallRefused(f"the gateway {reason}")


def _read_headers(metadata: Iterable[Header]) -> dict[str, str]:
    return {name: value for name, value in metadata if isinstance(value, str)}
