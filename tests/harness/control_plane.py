"""A Kubernetes control plane for tests and benchmarks, in its own directory.

    with ControlPlane.start(folder) as plane:
        plane.access.kubeconfig

etcd and kube-apiserver, ready in seconds on free loopback ports, with their own CA;
kube-controller-manager and kube-scheduler on request. They end with the context, with the thread
that started them, or with the process, also when that is killed.
"""

import json
import os
import ssl
import urllib.error
import urllib.request
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from types import TracebackType

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from kilonova.kube.serving.certificates import CertificateAuthority
from tests.harness.access import ServerAccess, write_kubeconfig
from tests.harness.server_process import ServerExited, ServerProcess, find_free_port
from tools.realparts import find_part

MISSING_BINARIES_MESSAGE = (
    "no Kubernetes control plane on this machine: `make control-plane` builds it, once"
)

_TOKEN = "administrator-of-a-test"
_PORT_ATTEMPTS = 3


@cache
def find_binaries() -> Path | None:
    """The directory with all five commands: KUBEBUILDER_ASSETS if complete, else the cache."""
    return find_part("control-plane")


@dataclass(frozen=True)
class NodeFacingAddress:
    """Where real nodes and their pods reach the API server: on the cluster IP of its Service.

    `host` is the first address of the range `services`, and an address of this machine. It also
    calls kubelets and, directly, the pods behind the Services of webhooks.
    """

    host: str
    services: str
    port: int = 443


@dataclass
class ControlPlane(AbstractContextManager["ControlPlane"]):
    """Running servers; `processes` starts with the last one started."""

    folder: Path
    access: ServerAccess
    authority: CertificateAuthority
    address: NodeFacingAddress | None = None
    tuned_for_speed: bool = True
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
        address: NodeFacingAddress | None = None,
        node_grace: str = "1h",
    ) -> "ControlPlane":
        """Start in an empty directory and wait until ready.

        `controllers` starts kube-controller-manager with that list (`*`: all that are on by
        default). `durable` uses production settings: etcd syncs to disk, and Go's garbage collector
        and the volume resync have their defaults; tests do not need them. `authorization` is the
        mode: `RBAC` decides as the embedded API does. `gates` are feature gates of the API server,
        `apis` versions to serve that are off by default, both as `NAME=true,…`. Real nodes need an
        `address`; without one the API server listens on the loopback. `node_grace` is how long a
        node may be silent; heartbeats of simulated nodes are late when the machine is busy.
        """
        commands = find_binaries()
        if commands is None:
            raise FileNotFoundError(MISSING_BINARIES_MESSAGE)
        for attempt in range(_PORT_ATTEMPTS):
            plane = cls._prepare(folder / str(attempt), address, tuned_for_speed=not durable)
            try:
                more = (f"--feature-gates={gates}", f"--runtime-config={apis}")
                plane._start_api(commands, authorization, *more, with_accounts=bool(controllers))
                if controllers:
                    plane._start_controller_manager(commands, controllers, node_grace)
                if with_scheduler:
                    plane.start_scheduler()
            except ServerExited as failure:
                plane.stop()
                # Another process took the port before the server bound it.
                if "address already in use" not in str(failure) or attempt + 1 == _PORT_ATTEMPTS:
                    raise
            except BaseException:
                plane.stop()
                raise
            else:
                return plane
        raise AssertionError("unreachable: the last attempt returns or raises")

    @classmethod
    def _prepare(
        cls, folder: Path, address: NodeFacingAddress | None, *, tuned_for_speed: bool
    ) -> "ControlPlane":
        folder.mkdir(parents=True)
        now = datetime.now(UTC)
        authority = CertificateAuthority.create("control plane of a test", now)
        (folder / "ca.crt").write_bytes(authority.cert_pem)
        host, port = (address.host, address.port) if address else ("127.0.0.1", find_free_port())
        server = authority.issue_server([host, "127.0.0.1", "localhost", "10.0.0.1"], now)
        server.write(folder / "server.crt", folder / "server.key")
        signer = ec.generate_private_key(ec.SECP256R1())
        (folder / "service-accounts.key").write_bytes(
            signer.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        )
        (folder / "service-accounts.pub").write_bytes(
            signer.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        )
        (folder / "tokens.csv").write_text(f'{_TOKEN},kubernetes-admin,admin,"system:masters"\n')
        url = f"https://{host}:{port}"
        admin = authority.issue_client("kubernetes-admin", ["system:masters"], now)
        write_kubeconfig(folder / "kubeconfig", url, authority.cert_pem, admin)
        write_kubeconfig(folder / "token.kubeconfig", url, authority.cert_pem, _TOKEN)
        access = ServerAccess.from_kubeconfig(folder / "kubeconfig", folder / "admin", _TOKEN)
        return cls(folder, access, authority, address, tuned_for_speed)

    @property
    def token_access(self) -> ServerAccess:
        """The same administrator, whose clients send a token: kube-apiserver verifies a client
        certificate in each request, which is a fourteenth of its CPU in a busy test.
        """
        return replace(self.access, kubeconfig=self.folder / "token.kubeconfig")

    def write_kubeconfig(self, path: Path, user: str, groups: Sequence[str]) -> None:
        """A kubeconfig of another user, with a certificate."""
        client = self.authority.issue_client(user, groups, datetime.now(UTC))
        write_kubeconfig(path, self.access.url, self.authority.cert_pem, client)

    def _start_api(
        self, commands: Path, authorization: str, *more: str, with_accounts: bool
    ) -> None:
        folder = self.folder
        # Pods need a service account only if a controller creates accounts.
        services = self.address.services if self.address else "10.0.0.0/16"
        left_out = [] if self.address else ["TaintNodesByCondition"]
        left_out += [] if with_accounts else ["ServiceAccount"]
        clients, peers = (f"http://127.0.0.1:{find_free_port()}" for _ in range(2))
        etcd = self._start(
            commands / "etcd",
            f"--data-dir={folder / 'etcd'}",
            f"--unsafe-no-fsync={json.dumps(self.tuned_for_speed)}",
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
            f"--bind-address={self.access.host}",
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
            f"--service-cluster-ip-range={services}",
            f"--disable-admission-plugins={','.join(left_out)}",
            "--endpoint-reconciler-type=none",
            "--allow-privileged",
            *(self._list_node_options() if self.address else ()),
            *more,
        )
        server.wait_until(lambda: not etcd.is_running() or self.access.is_ready())
        if not etcd.is_running():
            raise ServerExited("etcd", "ended", etcd.log)

    def _list_node_options(self) -> list[str]:
        return [
            "--enable-admission-plugins=NodeRestriction",
            "--kubelet-preferred-address-types=InternalIP",
            f"--kubelet-client-certificate={self.access.cert_file}",
            f"--kubelet-client-key={self.access.key_file}",
            "--enable-aggregator-routing",
        ]

    def _start_controller_manager(self, commands: Path, controllers: str, node_grace: str) -> None:
        port = find_free_port()
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
            f"--node-monitor-grace-period={node_grace}",
            "--kube-api-qps=5000",
            "--kube-api-burst=5000",
            # Otherwise a volume created after its claim is noticed only after 15 seconds.
            *(["--pvclaimbinder-sync-period=500ms"] if self.tuned_for_speed else []),
        )
        process.wait_until(lambda: is_healthy(port))

    def start_scheduler(self) -> None:
        """Start kube-scheduler with its default configuration."""
        commands = find_binaries()
        assert commands is not None, MISSING_BINARIES_MESSAGE
        port = find_free_port()
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
        """Stop the servers, clients before servers."""
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
        # Garbage collection takes a seventh of a busy kube-apiserver's CPU.
        tuning = {"GOGC": "2000", "GOMEMLIMIT": "1GiB"}
        env = {**os.environ, **tuning} if self.tuned_for_speed else None
        process = ServerProcess(command.name, [command, *arguments], log, env)
        self.processes.insert(0, process)
        return process


def is_healthy(port: int) -> bool:
    """Whether `/healthz` succeeds; the self-signed certificate is not verified."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        url = f"https://127.0.0.1:{port}/healthz"
        with urllib.request.urlopen(url, timeout=5, context=context) as reply:
            return reply.status == 200
    except (urllib.error.URLError, OSError):
        return False
