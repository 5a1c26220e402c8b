"""`pods/exec`, `pods/attach` and `pods/portforward`."""

from kilonova.api.json import JsonObject
from kilonova.kube.client.transport import Request
from kilonova.local.apimachinery.errors import bad_request
from kilonova.local.apimachinery.unstructured import nested_objects
from kilonova.local.apiserver.endpoints.pod_options import parse_flag, select_container
from kilonova.local.apiserver.streaming.port_forward import (
    PORTFORWARD,
    PortForwardTarget,
    forward_ports,
)
from kilonova.local.apiserver.streaming.protocol_negotiation import (
    SPDY,
    NegotiatedProtocol,
    negotiate_protocol,
    websocket_messages,
)
from kilonova.local.apiserver.streaming.remote_command import StreamOptions, copy_streams
from kilonova.local.apiserver.streaming.session import SpdySession, Upgrade, WebSocketSession
from kilonova.local.apiserver.streaming.spdy.connection import SpdyConnection
from kilonova.local.apiserver.streaming.spdy.remote_command import SpdyClientStreams
from kilonova.local.apiserver.streaming.websocket.connection import WebSocket, WebSocketByteStream
from kilonova.local.apiserver.streaming.websocket.port_forward import forward_port_channels
from kilonova.local.apiserver.streaming.websocket.remote_command import (
    PORT_FORWARD_PROTOCOLS,
    REMOTE_COMMAND_PROTOCOLS,
    WebSocketClientStreams,
)
from kilonova.local.kubelet_api import Kubelet, Kubelets, RemoteProcess

_V4 = "v4.channel.k8s.io"
_TUNNELED_SPDY = f"{SPDY}+{PORTFORWARD}"
_MAX_PORTS = 100


class PodConnectHandler:
    """Handles connections into a pod; all errors are raised before the upgrade."""

    def __init__(self, kubelets: Kubelets) -> None:
        self._kubelets = kubelets

    async def execute(self, pod: JsonObject, request: Request) -> Upgrade:
        """Run a command in a container; it is started before the response, or rejected."""
        kubelet, container, options = self._parse_options(pod, request)
        command = [value for name, value in request.query if name == "command"]
        if not command:
            raise bad_request("you must specify at least one command for the container")
        negotiated = negotiate_protocol(request, REMOTE_COMMAND_PROTOCOLS, (_V4,))
        process = await kubelet.execute(
            pod, container, command, stdin=options.stdin, tty=options.tty
        )
        return _remote_command_upgrade(negotiated, process, options, report_exit_code=True)

    async def attach(self, pod: JsonObject, request: Request) -> Upgrade:
        """Attach to the main process of a container."""
        kubelet, container, options = self._parse_options(pod, request)
        negotiated = negotiate_protocol(request, REMOTE_COMMAND_PROTOCOLS, (_V4,))
        # Whether it has a terminal was decided when it was started.
        tty = any(
            each.get("tty", False)
            for group in ("containers", "initContainers", "ephemeralContainers")
            for each in nested_objects(pod, "spec", group)
            if each["name"] == container
        )
        process = await kubelet.attach(pod, container, stdin=options.stdin, tty=tty)
        return _remote_command_upgrade(negotiated, process, options, report_exit_code=False)

    async def forward(self, pod: JsonObject, request: Request) -> Upgrade:
        """Forward connections to ports of the pod."""
        kubelet = self._find_kubelet(pod)
        negotiated = negotiate_protocol(
            request, (_TUNNELED_SPDY, *PORT_FORWARD_PROTOCOLS), (PORTFORWARD,)
        )
        metadata = pod["metadata"]
        where = PortForwardTarget(
            metadata["name"], metadata["uid"], lambda port: kubelet.dial(pod, port)
        )
        if negotiated.spdy:
            return negotiated.upgrade(SpdySession(lambda spdy: forward_ports(spdy, where)))
        if negotiated.protocol == _TUNNELED_SPDY:
            return negotiated.upgrade(
                WebSocketSession(
                    lambda each: forward_ports(SpdyConnection(WebSocketByteStream(each)), where)
                )
            )
        ports = _parse_ports(request)
        return negotiated.upgrade(
            WebSocketSession(
                lambda each: forward_port_channels(
                    websocket_messages(each, negotiated.protocol), where, ports
                )
            )
        )

    def _parse_options(
        self, pod: JsonObject, request: Request
    ) -> tuple[Kubelet, str, StreamOptions]:
        container = select_container(pod, request.query_param("container") or "")
        kubelet = self._find_kubelet(pod)
        options = StreamOptions(
            *(parse_flag(request, name) for name in ("stdin", "stdout", "stderr", "tty"))
        )
        if not (options.stdin or options.stdout or options.stderr):
            raise bad_request("you must specify at least 1 of stdin, stdout, stderr")
        return kubelet, container, options

    def _find_kubelet(self, pod: JsonObject) -> Kubelet:
        node = pod["spec"].get("nodeName", "")
        if not node:
            raise bad_request(f"pod {pod['metadata']['name']} does not have a host assigned")
        return self._kubelets.get(node)


def _remote_command_upgrade(
    negotiated: NegotiatedProtocol,
    process: RemoteProcess,
    options: StreamOptions,
    *,
    report_exit_code: bool,
) -> Upgrade:
    async def serve_websocket(websocket: WebSocket) -> None:
        client_streams = WebSocketClientStreams(
            websocket_messages(websocket, negotiated.protocol), negotiated.protocol
        )
        await client_streams.open(options)
        await copy_streams(process, client_streams, options, report_exit_code=report_exit_code)

    async def serve_spdy(connection: SpdyConnection) -> None:
        client_streams = SpdyClientStreams(connection, options)
        await copy_streams(process, client_streams, options, report_exit_code=report_exit_code)

    if negotiated.spdy:
        return negotiated.upgrade(SpdySession(serve_spdy, process.detach))
    return negotiated.upgrade(WebSocketSession(serve_websocket, process.detach))


def _parse_ports(request: Request) -> list[int]:
    """The ports of the query, repeated or separated by commas."""
    texts = [text for name, value in request.query if name == "ports" for text in value.split(",")]
    for text in texts:
        if not (text.isascii() and text.isdecimal()):
            raise bad_request(
                f'cannot convert to []int32: strconv.ParseUint: parsing "{text}": invalid syntax'
            )
        if not 0 < int(text[:6]) <= 0xFFFF:
            raise bad_request(f'"{text}" is not a port: must be between 1 and 65535')
    if not 0 < len(texts) <= _MAX_PORTS:
        raise bad_request(f'query parameter "ports" is required, with at most {_MAX_PORTS} ports')
    return [int(text) for text in texts]
