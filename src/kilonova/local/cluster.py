"""An embedded cluster: the store, the API, the controllers that a cluster needs, and its nodes.

Everything runs in one event loop. `start` returns when the API answers and the default
objects are there; `stop` ends watches, then controllers, then the store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from socket import socket
from typing import TYPE_CHECKING, Any

from kilonova.api.json import JsonObject
from kilonova.kube import Client, ComponentHealth, InProcessTransport, Part, Supervisor
from kilonova.kube.certificates import Authority
from kilonova.kube.logging import get_logger
from kilonova.kube.transport import Reply, Request, StreamReply
from kilonova.local.admission import Admission, Caller, Plugin, Scope, standard_plugins
from kilonova.local.admission.deviceclaims import DeviceClaims
from kilonova.local.admission.inprocess import WebhooksOf
from kilonova.local.api import Api
from kilonova.local.app import App
from kilonova.local.auth import (
    Authenticator,
    Gate,
    ServiceAccountTokens,
    SigningKey,
    StaticTokens,
    User,
    discovery_document,
    key_set,
)
from kilonova.local.auth.rbac import Policy, Rbac
from kilonova.local.auth.rbac.escalation import Escalation
from kilonova.local.bootstrap import (
    create_default_objects,
    create_default_roles,
    let_viewers_see_usage,
    put_definitions,
    tell_how_clients_are_known,
)
from kilonova.local.catalog import Catalog
from kilonova.local.clock import Clock, Identities, SystemClock
from kilonova.local.controllers import Controllers, Workshop, chosen, controller_parts
from kilonova.local.controllers.indexes import BY_NODE, pods_by_node
from kilonova.local.definitions import Definitions
from kilonova.local.documents import Documents
from kilonova.local.folder import Folder
from kilonova.local.health import Health, Probe
from kilonova.local.kinds.builtin import builtin_kinds
from kilonova.local.kubelets import Kubelets
from kilonova.local.listener import Listener, TlsFiles, bind
from kilonova.local.metrics import ServerMetrics
from kilonova.local.metricsapi import metrics_kinds
from kilonova.local.nodes import NO_NODES, Fleet, SimulatedKubelet, SimulatedNodes
from kilonova.local.nodes.heartbeats import StoredHeartbeats
from kilonova.local.registry.core import Registry
from kilonova.local.registry.objects import read_entry
from kilonova.local.responses import PendingWrites
from kilonova.local.reviews import Reviews
from kilonova.local.services import ServiceAddresses
from kilonova.local.storage import Durability, Log, Store
from kilonova.local.subresources import Subresources
from kilonova.local.tokens import TokenRequests, object_exists
from kilonova.local.verbs import Verbs

if TYPE_CHECKING:
    from kilonova.local.nodes.process.keeper.client import KeeperRuntime
    from kilonova.local.nodes.process.kubelet.build import BuiltNode

ISSUER = "https://kubernetes.default.svc.cluster.local"
_NAMES = (
    "localhost",
    "127.0.0.1",
    "::1",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "10.96.0.1",
)
_MASTER = User("system:apiserver", groups=("system:masters", "system:authenticated"))

_NO_COMPONENTS: Mapping[str, Callable[[Cluster], Sequence[Part]]] = {}
_GRACE_SECONDS = 10.0
"""How long all components may take to end, one after the other."""

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Settings:
    """How a cluster is started. Without `data` nothing outlives it; without `port` no socket."""

    data: Path | None = None
    host: str = "127.0.0.1"
    port: int | None = 0
    durability: Durability = Durability.FULL
    fleet: Fleet = NO_NODES
    token_file: Path | None = None
    controllers: str = "*"
    """Which built-in controllers run, in the words of `controllers.suite`; empty: none, and no
    nodes."""
    process_node: bool = False
    """Whether this machine is a node, whose pods run as processes."""
    gpus: tuple[int, ...] | None = None
    """The GPUs that they may have, by index; None: all that are there."""
    allowed_host_paths: tuple[Path, ...] = ()
    """What they may see of this machine as hostPath volumes."""


class Cluster:
    """One embedded cluster, from `start` to `stop`.

    Programs may live in it: `definitions` of their kinds are there from the start, `webhooks` are
    asked before writes like any others, but in this process, and `components` run beside the
    controllers. Each component has a supervisor: one that fails is built and started again, and
    nothing else ends with it; `report` hears of it.
    """

    def __init__(
        self,
        settings: Settings,
        clock: Clock | None = None,
        identities: Identities | None = None,
        webhooks: WebhooksOf | None = None,
        definitions: Sequence[JsonObject] = (),
        components: Mapping[str, Callable[[Cluster], Sequence[Part]]] = _NO_COMPONENTS,
        report: Callable[[str, ComponentHealth], None] = lambda name, health: None,
    ) -> None:
        if settings.port is not None and settings.data is None:
            raise ValueError("a cluster that listens needs a data folder for its certificates")
        if settings.process_node and settings.data is None:
            raise ValueError("a process node needs a data folder for its pods")
        self.settings = settings
        self.clock = clock or SystemClock()
        self.identities = identities or Identities()
        self._webhooks = webhooks
        self._definitions = definitions
        self._components = components
        self._report = report
        self.folder = Folder(settings.data) if settings.data else None
        self.metrics = ServerMetrics()
        self._pending = PendingWrites()
        self.kubelets = Kubelets()
        self.url = ""
        self.broken: asyncio.Future[Exception] | None = None
        """Done when the cluster cannot go on: the store failed."""
        self._controllers: Controllers | None = None
        self._simulated: SimulatedNodes | None = None
        self._process: BuiltNode | None = None
        self._pods_stopped = False
        self._address: socket | None = None
        self._ending = AsyncExitStack()
        self._ready = False

    def reserve(self) -> None:
        """Take the port, or say what is in the way of a start, before anything is made.

        `start` does it too; whoever has more to refuse does it first.
        """
        settings = self.settings
        chosen(settings.controllers)
        if self.folder is not None:
            self.folder.require_free()
        if settings.port is not None and self._address is None:
            self._address = bind(settings.host, settings.port)
            self._ending.callback(self._address.close)
            host = f"[{settings.host}]" if ":" in settings.host else settings.host
            self.url = f"https://{host}:{self._address.getsockname()[1]}"

    async def start(self) -> None:
        """Bring everything up, or raise with nothing left behind."""
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise

    async def _start(self) -> None:
        settings, now = self.settings, self.clock.now()
        self.broken = asyncio.get_running_loop().create_future()
        self.reserve()
        self._open_store()
        folder = self.folder
        authority = folder.authority(now) if folder else Authority.create("kilonova", now)
        self._build(folder.signing_key() if folder else SigningKey.create())
        await create_default_objects(self.client("system:apiserver"), self.url)
        await create_default_roles(self.client("system:apiserver"))
        await let_viewers_see_usage(self.client("system:apiserver"))
        await put_definitions(self.client("kilonova"), self._definitions)
        self._definitions = ()  # they are stored now; a second copy is of no use
        ca = authority.cert_pem.decode()
        await tell_how_clients_are_known(self.client("system:apiserver"), ca, now)
        if settings.controllers:
            self._controllers = self._built_controllers(ca)
            self._ending.push_async_callback(self._controllers.stop)
            self._controllers.start(self._broke)
        if self._address is not None and folder is not None:
            await self._listen(self._address, folder, authority)
        self._ready = True

    def _built_controllers(self, ca: str) -> Controllers:
        """All that runs beside the API."""
        runtime = self._keeper()

        def own() -> list[Part]:
            workshop = Workshop(
                self.client, self.clock, self.identities, ca, self.kubelets, self.settings.data
            )
            nodes = self._supervised("nodes", partial(self._nodes, workshop))
            services = self._services(workshop, runtime) if runtime is not None else ()
            return controller_parts(workshop, self.settings.controllers, [nodes, *services])

        supervised = [self._supervised("controllers", own)]
        if runtime is not None:
            node = partial(self._process_node, runtime)
            supervised.append(self._supervised("processNode", node))
        for name, build in self._components.items():
            supervised.append(self._supervised(name, partial(build, self)))
        return Controllers(supervised, grace=_GRACE_SECONDS)

    def _supervised(self, name: str, build: Callable[[], Sequence[Part]]) -> Supervisor:
        return Supervisor(name, build, report=self._report)

    def _nodes(self, workshop: Workshop) -> list[Part]:
        client = self.client("system:serviceaccount:kube-system:simulated-nodes")
        pods = pods_by_node(workshop)
        fleet = self.settings.fleet
        heartbeats = StoredHeartbeats(self.store)
        self._simulated = SimulatedNodes(
            client, fleet, self.clock.now, pods, alone=True, heartbeats=heartbeats
        )
        for name in self._simulated.names:
            bound = partial(pods.store.find, BY_NODE, name)
            self.kubelets.register(name, SimulatedKubelet(name, bound, self.clock.now))
        return [self._simulated]

    def _keeper(self) -> KeeperRuntime | None:
        """What runs the containers of the process node, if this machine is one."""
        settings = self.settings
        if not settings.process_node or settings.data is None:
            return None
        # What only a process node needs is loaded with one.
        from kilonova.local.nodes.process.keeper.client import KeeperRuntime

        runtime = KeeperRuntime(settings.data / "keeper")

        async def end_keeper() -> None:
            if self._pods_stopped:
                await runtime.shutdown()

        self._ending.push_async_callback(end_keeper)
        return runtime

    def _process_node(self, runtime: KeeperRuntime) -> Sequence[Part]:
        from kilonova.local.nodes.process.kubelet.build import build_process_node
        from kilonova.local.nodes.process.kubelet.devices import installed_gpus

        settings = self.settings
        assert settings.data is not None
        self._process = build_process_node(
            self.client,
            self.clock,
            runtime,
            settings.data,
            gpus=installed_gpus() if settings.gpus is None else settings.gpus,
            allowed_paths=settings.allowed_host_paths,
        )
        self.kubelets.register(self._process.name, self._process.kubelet)
        return self._process.parts

    def _services(self, workshop: Workshop, runtime: KeeperRuntime) -> Sequence[Part]:
        from kilonova.local.nodes.process.services import service_parts

        return service_parts(workshop, runtime.set_routes, self.url)

    async def stop_pods(self, progress: Callable[[int, float], None]) -> None:
        """End the processes of all pods; `progress` hears how many are left, for how long at most.

        Without it they go on when the cluster stops, and the next one on its data adopts them.
        """
        if self._process is not None:
            await self._process.node.stop_pods(progress)
            self._pods_stopped = True

    def _open_store(self) -> None:
        log: Log | None = None
        if self.folder is not None:
            self.folder.acquire()
            self._ending.callback(self.folder.release)
            log = Log(self.folder.database, self.settings.durability)
            self._ending.callback(log.close)
        self.store = Store(
            log, lambda _, key, rv, body: read_entry(key, rv, body), self.clock.monotonic
        )
        self._ending.push_async_callback(self.store.close)
        self.store.on_broken = self._broke

    async def _listen(self, address: socket, folder: Folder, authority: Authority) -> None:
        now = self.clock.now()
        names = list(dict.fromkeys([self.settings.host, *_NAMES]))
        certificate, key = folder.serving_files(authority, names, now)
        tls = TlsFiles(certificate, key, folder.authority_certificate)
        app = App(self.api, self._authenticator, self._pending)
        listener = Listener(app, address, tls)
        self._ending.push_async_callback(listener.stop)
        self._ending.push_async_callback(app.end_streams)
        await listener.start()
        folder.write_kubeconfig(self.url, authority, folder.admin(authority, now))
        folder.announce(self.url)

    def _build(self, key: SigningKey) -> None:
        settings = self.settings
        catalog = Catalog([*builtin_kinds(), *metrics_kinds()])
        definitions = Definitions(self.store, catalog, self.clock)
        self._ending.callback(definitions.close)
        ServiceAddresses(self.store, catalog, self.identities.random)
        rbac = Rbac(Policy.observing(self.store))
        caller = Caller(self.store)
        self._ending.push_async_callback(caller.close)
        scope = Scope(self.store, catalog, rbac)
        webhooks = self._webhooks(self.client) if self._webhooks is not None else ()
        plugins = standard_plugins(scope, caller, self.identities, webhooks)
        plugins += self._image_tolerations()
        claims = DeviceClaims(self.store, rbac)
        admission = Admission([*plugins, definitions, Escalation(rbac), claims])
        registry = Registry(self.store, catalog, self.clock, self.identities, admission)

        def exists(kind: str, namespace: str, name: str, uid: str) -> bool:
            return object_exists(registry, kind, namespace, name, uid)

        accounts = ServiceAccountTokens(
            [key], ISSUER, [ISSUER], exists, self.clock, self.identities
        )
        static = (
            StaticTokens.from_csv(settings.token_file.read_text()) if settings.token_file else None
        )
        self._authenticator = Authenticator(static, accounts)
        subresources = Subresources(
            registry,
            TokenRequests(registry, accounts),
            Reviews(self._authenticator, rbac, self.clock),
            self.kubelets,
        )
        published = {
            "/openid/v1/jwks": key_set([key]),
            "/.well-known/openid-configuration": discovery_document(
                ISSUER, self.url.removeprefix("https://"), [key]
            ),
        }
        probes = [
            Probe("ping", lambda: True),
            Probe("store", lambda: self.store.broken is None),
            Probe("started", lambda: self._ready, life=False),
        ]
        documents = Documents(catalog, Health(probes), self.metrics.render, published)
        gate = Gate(rbac)
        verbs = Verbs(registry, subresources, gate, self.identities.random)
        self.metrics.gauge("apiserver_resource_version", "Newest version.", lambda: self.store.rv)
        self.metrics.gauge(
            "apiserver_pending_response_bytes",
            "Bytes of answers that wait for clients that do not read.",
            lambda: self._pending.bytes,
        )
        self.metrics.gauge(
            "apiserver_blocked_clients",
            "Clients that do not read what is sent to them.",
            lambda: self._pending.clients,
        )
        self.metrics.counter(
            "apiserver_stalled_clients_disconnected",
            "Clients that were disconnected because they did not read.",
            lambda: self._pending.terminated,
        )
        self.api = Api(registry, documents, verbs, gate, self.metrics)

    def _image_tolerations(self) -> list[Plugin]:
        if not self.settings.process_node:
            return []
        from kilonova.local.admission.imagetolerations import ImageTolerations
        from kilonova.local.nodes.process.commands import can_run

        nodes = self.store.collection("nodes")
        return [
            ImageTolerations(nodes, lambda: self._process.name if self._process else "", can_run)
        ]

    def client(self, user: str) -> Client:
        """A client in this process, acting as `user` with all rights."""
        identity = User(user, groups=_MASTER.groups)

        async def answer(request: Request) -> Reply | StreamReply:
            return await self.api.handle(request, identity)

        return Client(InProcessTransport(answer), field_manager=user.rpartition(":")[2])

    @property
    def registered(self) -> tuple[int, int]:
        """How many nodes of the fleet have registered, and how many it has."""
        return self._simulated.registered if self._simulated is not None else (0, 0)

    async def wait_settled(self) -> None:
        """Until the nodes of the fleet, and this machine if it is one, have registered."""
        await asyncio.gather(self.wait_fleet(), self.wait_process_node())

    async def wait_fleet(self) -> None:
        """Until the nodes of the fleet have registered."""
        if self._simulated is not None:
            await self._unless_ended(self._simulated.wait_registered())

    async def wait_process_node(self) -> None:
        """Until this machine has registered as a node, if it is one."""
        if self._process is not None:
            await self._unless_ended(self._process.node.wait_registered())

    async def _unless_ended(self, work: Coroutine[Any, Any, None]) -> None:
        """Waits for something that never comes when the controllers have stopped."""
        assert self._controllers is not None
        registered = asyncio.ensure_future(work)
        try:
            await asyncio.wait(
                (registered, self._controllers.ended), return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            registered.cancel()

    async def stop(self) -> None:
        """End everything; what was acknowledged is on disk."""
        self._ready = False
        await self._ending.aclose()

    def _broke(self, error: Exception) -> None:
        _log.error("the cluster cannot go on", error=str(error))
        if self.broken is not None and not self.broken.done():
            self.broken.set_result(error)
