"""Which protocol is spoken on a connection that a client wants to upgrade.

A WebSocket client offers subprotocols, or none: the first of its choice that is served counts, and
none at all is one of them, as old clients of Kubernetes have it. The `base64` ones carry text.
"""

from kilonova.kube.transport import Request
from kilonova.local.errors import ApiError, bad_request
from kilonova.local.streaming import websocket as ws
from kilonova.local.streaming.session import Session, Upgrade
from kilonova.local.streaming.websocket import Base64WebSocket, Messages, WebSocket

SPDY = "SPDY/3.1"


class Agreed:
    """Which protocol both sides speak, and the headers that say so."""

    def __init__(self, protocol: str, headers: dict[str, str], *, spdy: bool) -> None:
        self.protocol = protocol
        self.spdy = spdy
        self._headers = headers

    def upgrade(self, session: Session) -> Upgrade:
        return Upgrade(headers=self._headers, session=session)


def is_websocket_request(request: Request) -> bool:
    """Whether the client wants to go on by WebSocket."""
    headers = request.headers
    wants = "upgrade" in headers.get("connection", "").lower()
    return wants and headers.get("upgrade", "").lower() == "websocket"


def agree(
    request: Request, websocket_protocols: tuple[str, ...], spdy_protocols: tuple[str, ...] = ()
) -> Agreed:
    """What the client offers and we speak, in the client's order; 400 without an upgrade."""
    headers = request.headers
    upgrade = headers.get("upgrade", "").lower()
    if "upgrade" not in headers.get("connection", "").lower() or not upgrade:
        raise bad_request("Upgrade request required")
    if upgrade == "websocket":
        if request.method != "GET" or not ws.is_handshake(headers):
            raise bad_request("not a WebSocket handshake of version 13")
        offered = _words(headers.get("sec-websocket-protocol", ""))
        protocol = _first(offered or [""], websocket_protocols)
        return Agreed(protocol, ws.handshake(headers, protocol), spdy=False)
    if upgrade != SPDY.lower() or not spdy_protocols:
        raise bad_request(f'cannot upgrade to "{headers["upgrade"]}": use WebSocket or {SPDY}')
    offered = _words(headers.get("x-stream-protocol-version", ""))
    protocol = _first(offered, spdy_protocols)
    accepting = {
        "upgrade": SPDY,
        "connection": "Upgrade",
        "x-stream-protocol-version": protocol,
    }
    return Agreed(protocol, accepting, spdy=True)


def messages(websocket: WebSocket, protocol: str) -> Messages:
    """The messages of a WebSocket as the subprotocol has them."""
    return Base64WebSocket(websocket) if "base64." in protocol else websocket


def _first(offered: list[str], spoken: tuple[str, ...]) -> str:
    for protocol in offered:
        if protocol in spoken:
            return protocol
    served = " ".join(protocol for protocol in spoken if protocol)
    raise ApiError(
        403,
        "Forbidden",
        "unable to upgrade: unable to negotiate protocol: "
        f"client supports [{' '.join(offered)}], server accepts [{served}]",
    )


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]
