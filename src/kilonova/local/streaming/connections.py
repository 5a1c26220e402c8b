"""`pods/exec`, `pods/attach` and `pods/portforward`: what is asked, and of which node."""

from kilonova.api.json import JsonObject
from kilonova.kube.transport import Request
from kilonova.local.errors import bad_request
from kilonova.local.kinds.walk import objects
from kilonova.local.kubelets import Kubelet, Kubelets, RemoteProcess
from kilonova.local.podoptions import chosen_container, flag
from kilonova.local.streaming.channels import CONSOLE_PROTOCOLS, PORT_PROTOCOLS, ChannelConsole
from kilonova.local.streaming.console import Wanted, converse
from kilonova.local.streaming.forwarding import PORTFORWARD, ForwardedPod, forward_ports
from kilonova.local.streaming.handshakes import SPDY, Agreed, agree, messages
from kilonova.local.streaming.portchannels import forward_channels
from kilonova.local.streaming.session import SpdySession, Upgrade, WebSocketSession
from kilonova.local.streaming.spdyconsole import SpdyConsole
from kilonova.local.streaming.spdystreams import SpdyConnection
from kilonova.local.streaming.websocket import Tunnel, WebSocket

_V4 = "v4.channel.k8s.io"
_TUNNELLED = f"{SPDY}+{PORTFORWARD}"
_MOST_PORTS = 100


class PodConnections:
    """Answers requests for connections into a pod; every refusal comes before the upgrade."""

    def __init__(self, kubelets: Kubelets) -> None:
        self._kubelets = kubelets

    async def execute(self, pod: JsonObject, request: Request) -> Upgrade:
        """Run a command in a container; it is started before the answer, or refused."""
        kubelet, container, wanted = self._asked(pod, request)
        command = [value for name, value in request.query if name == "command"]
        if not command:
            raise bad_request("you must specify at least one command for the container")
        agreed = agree(request, CONSOLE_PROTOCOLS, (_V4,))
        process = await kubelet.execute(pod, container, command, stdin=wanted.stdin, tty=wanted.tty)
        return _on_console(agreed, process, wanted, tells_exit_code=True)

    async def attach(self, pod: JsonObject, request: Request) -> Upgrade:
        """Sit down at the process that a container runs."""
        kubelet, container, wanted = self._asked(pod, request)
        agreed = agree(request, CONSOLE_PROTOCOLS, (_V4,))
        # Whether it runs in a terminal was settled when it was started.
        tty = any(
            each.get("tty", False)
            for group in ("containers", "initContainers", "ephemeralContainers")
            for each in objects(pod, "spec", group)
            if each["name"] == container
        )
        process = await kubelet.attach(pod, container, stdin=wanted.stdin, tty=tty)
        return _on_console(agreed, process, wanted, tells_exit_code=False)

    async def forward(self, pod: JsonObject, request: Request) -> Upgrade:
        """Connections to ports of the pod."""
        kubelet = self._kubelet(pod)
        agreed = agree(request, (_TUNNELLED, *PORT_PROTOCOLS), (PORTFORWARD,))
        metadata = pod["metadata"]
        where = ForwardedPod(
            metadata["name"], metadata["uid"], lambda port: kubelet.dial(pod, port)
        )
        if agreed.spdy:
            return agreed.upgrade(SpdySession(lambda spdy: forward_ports(spdy, where)))
        if agreed.protocol == _TUNNELLED:
            return agreed.upgrade(
                WebSocketSession(lambda each: forward_ports(SpdyConnection(Tunnel(each)), where))
            )
        ports = _ports(request)
        return agreed.upgrade(
            WebSocketSession(
                lambda each: forward_channels(messages(each, agreed.protocol), where, ports)
            )
        )

    def _asked(self, pod: JsonObject, request: Request) -> tuple[Kubelet, str, Wanted]:
        container = chosen_container(pod, request.param("container") or "")
        kubelet = self._kubelet(pod)
        wanted = Wanted(*(flag(request, name) for name in ("stdin", "stdout", "stderr", "tty")))
        if not (wanted.stdin or wanted.stdout or wanted.stderr):
            raise bad_request("you must specify at least 1 of stdin, stdout, stderr")
        return kubelet, container, wanted

    def _kubelet(self, pod: JsonObject) -> Kubelet:
        node = pod["spec"].get("nodeName", "")
        if not node:
            raise bad_request(f"pod {pod['metadata']['name']} does not have a host assigned")
        return self._kubelets.find(node)


def _on_console(
    agreed: Agreed, process: RemoteProcess, wanted: Wanted, *, tells_exit_code: bool
) -> Upgrade:
    async def over_websocket(websocket: WebSocket) -> None:
        console = ChannelConsole(messages(websocket, agreed.protocol), agreed.protocol)
        await console.begin(wanted)
        await converse(process, console, wanted, tells_exit_code=tells_exit_code)

    async def over_spdy(connection: SpdyConnection) -> None:
        console = SpdyConsole(connection, wanted)
        await converse(process, console, wanted, tells_exit_code=tells_exit_code)

    if agreed.spdy:
        return agreed.upgrade(SpdySession(over_spdy, process.detach))
    return agreed.upgrade(WebSocketSession(over_websocket, process.detach))


def _ports(request: Request) -> list[int]:
    """The ports of the query, repeated or separated by commas."""
    texts = [text for name, value in request.query if name == "ports" for text in value.split(",")]
    for text in texts:
        if not (text.isascii() and text.isdecimal()):
            raise bad_request(
                f'cannot convert to []int32: strconv.ParseUint: parsing "{text}": invalid syntax'
            )
        if not 0 < int(text[:6]) <= 0xFFFF:
            raise bad_request(f'"{text}" is not a port: ports are 1 to 65535')
    if not 0 < len(texts) <= _MOST_PORTS:
        raise bad_request(f'query parameter "ports" is required, with at most {_MOST_PORTS} ports')
    return [int(text) for text in texts]
