"""The embedded cluster: storage, API server, controllers and nodes.

Everything runs in one event loop. `start` returns when the API is served and the default objects
exist; `stop` ends watches, then controllers, then the storage.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from socket import socket
from typing import Any

from prometheus_client import CollectorRegistry

from kilonova.api.json import JsonObject
from kilonova.kube import Client, ComponentHealth, InProcessTransport, Runnable, Supervisor
from kilonova.kube.client.transport import Reply, Request, StreamReply
from kilonova.kube.observability.structured_logging import get_logger
from kilonova.kube.serving.certificates import CertificateAuthority
from kilonova.kube.serving.http_server import HttpServer, create_tls_context
from kilonova.kube.serving.response_writer import PendingWrites
from kilonova.local.apiserver.admission.webhooks.in_process import WebhookFactory
from kilonova.local.apiserver.auth import (
    SigningKey,
    User,
)
from kilonova.local.apiserver.bootstrap import (
    create_default_objects,
    create_metrics_reader_role,
    install_crds,
    publish_authentication_config,
    reconcile_default_roles,
)
from kilonova.local.apiserver.default_role_entries import store_default_roles
from kilonova.local.apiserver.kinds.core.service_allocator import DEFAULT_RANGES
from kilonova.local.apiserver.registry.encoding import read_entry
from kilonova.local.apiserver.server.asgi import AsgiApp
from kilonova.local.apiserver.server.listener import API_SERVER_OPTIONS, bind_socket
from kilonova.local.apiserver.server.metrics import ServerMetrics
from kilonova.local.apiserver.storage import RevisionLog, RevisionStore
from kilonova.local.clock import Clock, IdGenerator, SystemClock
from kilonova.local.cluster.apiserver import ApiServerContext, build_apiserver
from kilonova.local.cluster.nodes import ClusterNodes
from kilonova.local.cluster.settings import ClusterSettings
from kilonova.local.controllers import (
    ControllerContext,
    ControllerManager,
    build_controllers,
    select_controllers,
)
from kilonova.local.data_directory import DataDirectory
from kilonova.local.kubelet_api import GpuReader, Kubelets

_SERVING_CERTIFICATE_NAMES = (
    "localhost",
    "127.0.0.1",
    "::1",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
_APISERVER_USER = User("system:apiserver", groups=("system:masters", "system:authenticated"))

_NO_COMPONENTS: Mapping[str, Callable[[EmbeddedCluster], Sequence[Runnable]]] = {}
_SHUTDOWN_SECONDS = 10.0
"""How long all components together may take to stop."""
_COMPONENT_SHUTDOWN_SECONDS = 8.0
"""How long one may take, such as for a child process to end gracefully."""

_AGENT_COMPONENT = "gpu"
"""The component whose agents publish the GPUs of simulated nodes."""

_log = get_logger(__name__)


class EmbeddedCluster:
    """One embedded cluster, from `start` to `stop`.

    Components may run in it: the `definitions` of their kinds exist from the start, their
    `webhooks` are called in process, and `components` run beside the controllers. Each component
    has a supervisor: one that fails is restarted without affecting the others, and `report` is
    called.
    """

    def __init__(
        self,
        settings: ClusterSettings,
        clock: Clock | None = None,
        id_generator: IdGenerator | None = None,
        webhooks: WebhookFactory | None = None,
        definitions: Sequence[JsonObject] = (),
        components: Mapping[str, Callable[[EmbeddedCluster], Sequence[Runnable]]] = _NO_COMPONENTS,
        report: Callable[[str, ComponentHealth], None] = lambda name, health: None,
    ) -> None:
        if settings.port is not None and settings.data is None:
            raise ValueError("a cluster that listens needs a data directory for its certificates")
        if settings.process_node and settings.data is None:
            raise ValueError("a process node needs a data directory for its pods")
        if settings.process_node and settings.services != DEFAULT_RANGES:
            raise ValueError("a process node serves only the default ranges of Services")
        self.settings = settings
        self.clock = clock or SystemClock()
        self.id_generator = id_generator or IdGenerator()
        self._webhooks = webhooks
        self._definitions = definitions
        self._components = components
        self._report = report
        self.folder = DataDirectory(settings.data) if settings.data else None
        self.metrics = ServerMetrics()
        self._pending_writes = PendingWrites()
        self.kubelets = Kubelets()
        self.url = ""
        self.failure: asyncio.Future[Exception] | None = None
        """Resolved when the storage failed: the cluster cannot continue."""
        self._controllers: ControllerManager | None = None
        self._nodes = ClusterNodes(settings, self.clock, self.kubelets, self.client)
        self._socket: socket | None = None
        self._exit_stack = AsyncExitStack()
        self._is_ready = False

    @property
    def name(self) -> str:
        """The name by which people know the cluster."""
        return self.settings.name

    def claim_port(self) -> None:
        """Bind the port, or raise why it cannot be bound, before anything is created.

        `start` does it too; callers with further checks call it first.
        """
        settings = self.settings
        select_controllers(settings.controllers)
        if self.folder is not None:
            self.folder.check_unlocked()
        if settings.port is not None and self._socket is None:
            self._socket = bind_socket(settings.host, settings.port)
            self._exit_stack.callback(self._socket.close)
            host = f"[{settings.host}]" if ":" in settings.host else settings.host
            self.url = f"https://{host}:{self._socket.getsockname()[1]}"

    async def start(self) -> None:
        """Start everything, or raise and leave nothing behind."""
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise

    async def _start(self) -> None:
        settings, now = self.settings, self.clock.now()
        self.failure = asyncio.get_running_loop().create_future()
        self.claim_port()
        self._open_store()
        folder = self.folder
        authority = (
            folder.load_authority(now) if folder else CertificateAuthority.create("kilonova", now)
        )
        self._build_apiserver(folder.load_signing_key() if folder else SigningKey.create())
        is_new = self.store.is_empty
        await create_default_objects(
            self.client("system:apiserver"), self.url, self.settings.services.api_address
        )
        if is_new:
            await store_default_roles(self.api.registry)
        else:
            await reconcile_default_roles(self.client("system:apiserver"))
        await create_metrics_reader_role(self.client("system:apiserver"))
        await install_crds(self.client("kilonova"), self._definitions)
        self._definitions = ()  # they are stored now; drop the second copy
        ca = authority.cert_pem.decode()
        await publish_authentication_config(self.client("system:apiserver"), ca, now)
        await self._nodes.find_gpus()
        if settings.controllers or self._components:
            self._controllers = self._build_controllers(ca)
            self._exit_stack.push_async_callback(self._controllers.stop)
            self._controllers.start(self._fail)
        if self._socket is not None and folder is not None:
            await self._listen(self._socket, folder, authority)
        self._is_ready = True

    def _build_controllers(self, ca: str) -> ControllerManager:
        """Everything that runs beside the API server."""
        supervised = self._build_own_parts(ca) if self.settings.controllers else []
        for name, build in self._components.items():
            supervised.append(
                Supervisor(
                    name,
                    partial(build, self),
                    on_health_change=self._report,
                    optional=True,
                    grace=_COMPONENT_SHUTDOWN_SECONDS,
                )
            )
        return ControllerManager(supervised, grace=_SHUTDOWN_SECONDS)

    def _build_own_parts(self, ca: str) -> list[Runnable]:
        """The built-in controllers and the nodes."""
        runtime = self._nodes.build_shim_runtime(self._exit_stack)

        def build_builtin_controllers() -> list[Runnable]:
            context = ControllerContext(
                self.client,
                self.clock,
                self.id_generator,
                ca,
                self.kubelets,
                self.settings.data,
                lambda spec: self._nodes.get_program_finder().can_run_pod(spec),
            )
            nodes = self._supervise(
                "nodes",
                partial(
                    self._nodes.build_simulated_nodes,
                    context,
                    self.store,
                    has_agents=_AGENT_COMPONENT in self._components,
                ),
            )
            services = (
                self._nodes.build_service_proxy(context, runtime, self.url)
                if runtime is not None
                else ()
            )
            return build_controllers(context, self.settings.controllers, [nodes, *services])

        supervised: list[Runnable] = [self._supervise("controllers", build_builtin_controllers)]
        if runtime is not None:
            node = partial(self._nodes.build_process_node, runtime)
            supervised.append(self._supervise("process-node", node))
        return supervised

    def _supervise(self, name: str, build: Callable[[], Sequence[Runnable]]) -> Supervisor:
        return Supervisor(name, build, on_health_change=self._report)

    async def stop_pods(self, progress: Callable[[int, float], None]) -> None:
        """Terminate the processes of all pods; `progress` is called with their number and the
        maximum time left.

        Otherwise they keep running when the cluster stops, and the next one on its data adopts
        them.
        """
        await self._nodes.stop_pods(progress)

    def _open_store(self) -> None:
        log: RevisionLog | None = None
        if self.folder is not None:
            self.folder.acquire()
            self._exit_stack.callback(self.folder.release)
            log = RevisionLog(self.folder.database, self.settings.durability)
            self._exit_stack.callback(log.close)
        self.store = RevisionStore(
            log, lambda _, key, rv, body: read_entry(key, rv, body), self.clock.monotonic
        )
        self._exit_stack.push_async_callback(self.store.close)
        self.store.on_failure = self._fail

    async def _listen(
        self, address: socket, folder: DataDirectory, authority: CertificateAuthority
    ) -> None:
        now = self.clock.now()
        settings = self.settings
        addresses = [settings.host, settings.services.api_address]
        names = list(dict.fromkeys([*addresses, *_SERVING_CERTIFICATE_NAMES]))
        certificate, key = folder.ensure_serving_certificate(authority, names, now)
        tls = create_tls_context(folder.authority_certificate, ssl.CERT_OPTIONAL)
        tls.load_cert_chain(certificate, key)
        app = AsgiApp(self.api, self._authenticator, self._pending_writes)
        server = HttpServer(app, address, tls, API_SERVER_OPTIONS)
        self._exit_stack.push_async_callback(server.stop)
        self._exit_stack.push_async_callback(app.end_streams)
        await server.start()
        folder.write_kubeconfig(
            self.url, authority, folder.ensure_admin_certificate(authority, now)
        )
        folder.write_running_record(self.url)

    def _build_apiserver(self, key: SigningKey) -> None:
        context = ApiServerContext(
            self.settings,
            self.store,
            self.clock,
            self.id_generator,
            self.kubelets,
            self.metrics,
            self._exit_stack,
        )
        self.api, self._authenticator = build_apiserver(
            context,
            key,
            self.url,
            webhooks=self._webhooks(self.client) if self._webhooks is not None else (),
            plugins=self._nodes.build_image_toleration(self.store),
            is_ready=lambda: self._is_ready,
        )
        self._register_metrics()

    def _register_metrics(self) -> None:
        self.metrics.gauge(
            "apiserver_resource_version", "Latest resource version.", lambda: self.store.revision
        )
        self.metrics.gauge(
            "apiserver_pending_response_bytes",
            "Response bytes pending for clients that do not read.",
            lambda: self._pending_writes.pending_bytes,
        )
        self.metrics.gauge(
            "apiserver_blocked_clients",
            "Clients that do not read their response.",
            lambda: self._pending_writes.blocked_clients,
        )
        self.metrics.counter(
            "apiserver_stalled_clients_disconnected",
            "Clients disconnected because they did not read their response.",
            lambda: self._pending_writes.disconnected_clients,
        )

    def client(self, user: str) -> Client:
        """An in-process client, acting as `user` with all permissions."""
        identity = User(user, groups=_APISERVER_USER.groups)

        async def handle(request: Request) -> Reply | StreamReply:
            return await self.api.handle(request, identity)

        return Client(InProcessTransport(handle), field_manager=user.rpartition(":")[2])

    @property
    def data_path(self) -> Path | None:
        """The data directory; None if the cluster is in memory only."""
        return self.settings.data

    def new_id(self) -> str:
        """A random suffix, for names of Events."""
        return self.id_generator.event_name_suffix()

    def component_registry(self, name: str) -> CollectorRegistry:
        """A new registry for metrics of a component, which the API exposes; it replaces that of
        the component's previous run."""
        return self.metrics.component_registry(name)

    def provide_gpu_readings(self, read: GpuReader) -> None:
        """Have the NodeMetrics of nodes show what is measured of their GPUs."""
        self.kubelets.read_gpus = read

    @property
    def registered_nodes(self) -> tuple[int, int]:
        """How many nodes of the fleet have registered, and how many there are."""
        return self._nodes.registered_nodes

    async def wait_nodes_registered(self) -> None:
        """Wait until the nodes of the fleet, and this machine if it is one, have registered."""
        await asyncio.gather(self.wait_simulated_nodes(), self.wait_process_node())

    async def wait_simulated_nodes(self) -> None:
        """Wait until the nodes of the fleet have registered."""
        await self._wait_unless_stopped(self._nodes.wait_simulated_nodes())

    async def wait_process_node(self) -> None:
        """Wait until this machine has registered as a node, if it is one."""
        await self._wait_unless_stopped(self._nodes.wait_process_node())

    async def _wait_unless_stopped(self, work: Coroutine[Any, Any, None]) -> None:
        """Wait, but not beyond the end of the controllers."""
        if self._controllers is None:
            await work
            return
        registered = asyncio.ensure_future(work)
        try:
            await asyncio.wait(
                (registered, self._controllers.stopped), return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            registered.cancel()

    async def stop(self) -> None:
        """Stop everything; all acknowledged writes are on disk."""
        self._is_ready = False
        await self._exit_stack.aclose()

    def _fail(self, error: Exception) -> None:
        _log.error("cluster failed: storage error", error=str(error))
        if self.failure is not None and not self.failure.done():
            self.failure.set_result(error)
