"""A genuine Kubernetes control plane for tests and benchmarks, in a folder of its own.

    with ControlPlane.start(folder) as plane:
        plane.access.kubeconfig

etcd and kube-apiserver, ready in seconds on free loopback ports, with their own authority;
kube-controller-manager and kube-scheduler on request. They end with the context, with the
thread that started them, or with the process, also when that is killed.
"""

import importlib.util
import json
import os
import ssl
import urllib.error
import urllib.request
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from types import ModuleType, TracebackType

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from kilonova.kube.certificates import Authority
from tests.harness.access import Access, write_kubeconfig
from tests.harness.process import ServerDied, ServerProcess, free_port

HOW_TO_GET = "no genuine control plane on this machine: `make control-plane` builds it, once"

_TOKEN = "administrator-of-a-test"
_PORT_ATTEMPTS = 3


@cache
def binaries() -> Path | None:
    """The folder with all five commands: KUBEBUILDER_ASSETS if complete, else the cache."""
    recipe = _build_recipe()
    candidates = [recipe.cache_folder()]
    if given := os.environ.get("KUBEBUILDER_ASSETS"):
        candidates.insert(0, Path(given))
    return next((folder for folder in candidates if recipe.is_complete(folder)), None)


def _build_recipe() -> ModuleType:
    path = Path(__file__).parents[2] / "tools" / "control-plane" / "build.py"
    spec = importlib.util.spec_from_file_location("control_plane_build", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@dataclass
class ControlPlane(AbstractContextManager["ControlPlane"]):
    """Running servers, the last started first in `processes`."""

    folder: Path
    access: Access
    in_a_hurry: bool = True
    """Whether they are set up for tests, rather than as they are in production."""
    processes: list[ServerProcess] = field(default_factory=list[ServerProcess])

    @classmethod
    def start(
        cls,
        folder: Path,
        *,
        controllers: str = "",
        with_scheduler: bool = False,
        durable: bool = False,
        authorization: str = "AlwaysAllow",
        gates: str = "",
        apis: str = "",
    ) -> "ControlPlane":
        """Start in an empty folder and wait until ready.

        `controllers` starts kube-controller-manager with that list (`*`: all that are on by
        default). `durable` leaves all as in production: etcd waits for the disk, memory is dear,
        and volumes are looked at now and then; tests need none of it.
        `authorization` is the mode: `RBAC` decides as the embedded API does. `gates` are features
        of the API server to switch on, `apis` versions to serve that are off by default, both as
        `NAME=true,…`.
        """
        commands = binaries()
        if commands is None:
            raise FileNotFoundError(HOW_TO_GET)
        for attempt in range(_PORT_ATTEMPTS):
            plane = cls._on_free_ports(folder / str(attempt), in_a_hurry=not durable)
            try:
                more = (f"--feature-gates={gates}", f"--runtime-config={apis}")
                plane._start_api(commands, authorization, *more, with_accounts=bool(controllers))
                if controllers:
                    plane._start_controller_manager(commands, controllers)
                if with_scheduler:
                    plane.start_scheduler()
            except ServerDied as failure:
                plane.stop()
                # Somebody took the port between our look and the server's bind.
                if "address already in use" not in str(failure) or attempt + 1 == _PORT_ATTEMPTS:
                    raise
            except BaseException:
                plane.stop()
                raise
            else:
                return plane
        raise AssertionError("unreachable: the last attempt returns or raises")

    @classmethod
    def _on_free_ports(cls, folder: Path, *, in_a_hurry: bool) -> "ControlPlane":
        folder.mkdir(parents=True)
        now = datetime.now(UTC)
        authority = Authority.create("control plane of a test", now)
        (folder / "ca.crt").write_bytes(authority.cert_pem)
        server = authority.issue_server(["127.0.0.1", "localhost", "10.0.0.1"], now)
        server.write(folder / "server.crt", folder / "server.key")
        signer = ec.generate_private_key(ec.SECP256R1())
        (folder / "service-accounts.key").write_bytes(
            signer.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        )
        (folder / "service-accounts.pub").write_bytes(
            signer.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        )
        (folder / "tokens.csv").write_text(f'{_TOKEN},kubernetes-admin,admin,"system:masters"\n')
        url = f"https://127.0.0.1:{free_port()}"
        admin = authority.issue_client("kubernetes-admin", ["system:masters"], now)
        write_kubeconfig(folder / "kubeconfig", url, authority.cert_pem, admin)
        access = Access.from_kubeconfig(folder / "kubeconfig", folder / "admin", _TOKEN)
        return cls(folder, access, in_a_hurry)

    def _start_api(
        self, commands: Path, authorization: str, *more: str, with_accounts: bool
    ) -> None:
        folder = self.folder
        # Pods need an account only where a controller makes them.
        left_out = ["TaintNodesByCondition", *([] if with_accounts else ["ServiceAccount"])]
        clients, peers = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        etcd = self._start(
            commands / "etcd",
            f"--data-dir={folder / 'etcd'}",
            f"--unsafe-no-fsync={json.dumps(self.in_a_hurry)}",
            f"--listen-client-urls={clients}",
            f"--advertise-client-urls={clients}",
            f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=default={peers}",
            "--log-level=warn",
        )
        server = self._start(
            commands / "kube-apiserver",
            f"--etcd-servers={clients}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self.access.port}",
            f"--tls-cert-file={folder / 'server.crt'}",
            f"--tls-private-key-file={folder / 'server.key'}",
            f"--client-ca-file={folder / 'ca.crt'}",
            f"--token-auth-file={folder / 'tokens.csv'}",
            "--anonymous-auth=false",
            f"--authorization-mode={authorization}",
            f"--service-account-key-file={folder / 'service-accounts.pub'}",
            f"--service-account-signing-key-file={folder / 'service-accounts.key'}",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            "--service-cluster-ip-range=10.0.0.0/16",
            f"--disable-admission-plugins={','.join(left_out)}",
            "--endpoint-reconciler-type=none",
            "--allow-privileged",
            *more,
        )
        server.wait_until(lambda: not etcd.is_running() or self.access.is_ready())
        if not etcd.is_running():
            raise ServerDied("etcd", "ended", etcd.log)

    def _start_controller_manager(self, commands: Path, controllers: str) -> None:
        port = free_port()
        process = self._start(
            commands / "kube-controller-manager",
            f"--kubeconfig={self.access.kubeconfig}",
            f"--controllers={controllers}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--cert-dir={self.folder}",
            f"--service-account-private-key-file={self.folder / 'service-accounts.key'}",
            f"--root-ca-file={self.folder / 'ca.crt'}",
            "--use-service-account-credentials=false",
            "--leader-elect=false",
            # Heartbeats of simulated nodes come late when the machine is busy.
            "--node-monitor-grace-period=1h",
            "--kube-api-qps=5000",
            "--kube-api-burst=5000",
            # A volume that comes after its claim is else seen in a quarter of a minute.
            *(["--pvclaimbinder-sync-period=500ms"] if self.in_a_hurry else []),
        )
        process.wait_until(lambda: is_healthy(port))

    def start_scheduler(self) -> None:
        """Start kube-scheduler, too, as it is by default."""
        commands = binaries()
        assert commands is not None, HOW_TO_GET
        port = free_port()
        config = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {
                "kubeconfig": str(self.access.kubeconfig),
                "qps": 5000,
                "burst": 5000,
            },
            "leaderElection": {"leaderElect": False},
        }
        path = self.folder / "scheduler.json"
        path.write_text(json.dumps(config))
        process = self._start(
            commands / "kube-scheduler",
            f"--config={path}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--cert-dir={self.folder}",
        )
        process.wait_until(lambda: is_healthy(port))

    def stop(self) -> None:
        """End the servers, those that use the others first."""
        while self.processes:
            self.processes.pop(0).stop()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _start(self, command: Path, *arguments: str) -> ServerProcess:
        log = self.folder / f"{command.name}.log"
        # What the collector of garbage takes is a seventh of a busy kube-apiserver's time.
        env = {**os.environ, "GOGC": "500"} if self.in_a_hurry else None
        process = ServerProcess(command.name, [command, *arguments], log, env)
        self.processes.insert(0, process)
        return process


def is_healthy(port: int) -> bool:
    """Whether the process says so; its certificate is its own making, so it is not checked."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        url = f"https://127.0.0.1:{port}/healthz"
        with urllib.request.urlopen(url, timeout=5, context=context) as reply:
            return reply.status == 200
    except (urllib.error.URLError, OSError):
        return False
