"""Negotiates the protocol of an upgraded connection.

A WebSocket client offers subprotocols, or none: the first one it offers that is supported is used,
and none at all is supported too, as old Kubernetes clients need. The `base64` ones carry text.
"""

from kilonova.kube.client.transport import Request
from kilonova.local.apimachinery.errors import ApiError, bad_request
from kilonova.local.apiserver.streaming.session import Session, Upgrade
from kilonova.local.apiserver.streaming.websocket import connection as ws
from kilonova.local.apiserver.streaming.websocket.connection import (
    Base64WebSocket,
    MessageStream,
    WebSocket,
)

SPDY = "SPDY/3.1"


class NegotiatedProtocol:
    """The negotiated protocol, and the response headers for it."""

    def __init__(self, protocol: str, headers: dict[str, str], *, spdy: bool) -> None:
        self.protocol = protocol
        self.spdy = spdy
        self._headers = headers

    def upgrade(self, session: Session) -> Upgrade:
        return Upgrade(headers=self._headers, session=session)


def is_websocket_request(request: Request) -> bool:
    """Whether the client requests an upgrade to WebSocket."""
    headers = request.headers
    is_upgrade = "upgrade" in headers.get("connection", "").lower()
    return is_upgrade and headers.get("upgrade", "").lower() == "websocket"


def negotiate_protocol(
    request: Request, websocket_protocols: tuple[str, ...], spdy_protocols: tuple[str, ...] = ()
) -> NegotiatedProtocol:
    """The first protocol offered by the client that is supported; 400 without an upgrade."""
    headers = request.headers
    upgrade = headers.get("upgrade", "").lower()
    if "upgrade" not in headers.get("connection", "").lower() or not upgrade:
        raise bad_request("Upgrade request required")
    if upgrade == "websocket":
        if request.method != "GET" or not ws.is_handshake(headers):
            raise bad_request("not a WebSocket handshake of version 13")
        offered = _split_header(headers.get("sec-websocket-protocol", ""))
        protocol = _first_supported(offered or [""], websocket_protocols)
        return NegotiatedProtocol(protocol, ws.handshake_headers(headers, protocol), spdy=False)
    if upgrade != SPDY.lower() or not spdy_protocols:
        raise bad_request(f'cannot upgrade to "{headers["upgrade"]}": use WebSocket or {SPDY}')
    offered = _split_header(headers.get("x-stream-protocol-version", ""))
    protocol = _first_supported(offered, spdy_protocols)
    accepting = {
        "upgrade": SPDY,
        "connection": "Upgrade",
        "x-stream-protocol-version": protocol,
    }
    return NegotiatedProtocol(protocol, accepting, spdy=True)


def websocket_messages(websocket: WebSocket, protocol: str) -> MessageStream:
    """The messages of a WebSocket in the encoding of the subprotocol."""
    return Base64WebSocket(websocket) if "base64." in protocol else websocket


def _first_supported(offered: list[str], supported: tuple[str, ...]) -> str:
    for protocol in offered:
        if protocol in supported:
            return protocol
    served = " ".join(protocol for protocol in supported if protocol)
    raise ApiError(
        403,
        "Forbidden",
        "unable to upgrade: unable to negotiate protocol: "
        f"client supports [{' '.join(offered)}], server accepts [{served}]",
    )


def _split_header(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]
