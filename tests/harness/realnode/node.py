"""Starts a real node and the control plane that it joins."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.harness.control_plane import ControlPlane, NodeFacingAddress
from tests.harness.realnode.configuration import PAUSE_IMAGE
from tests.harness.realnode.network import NodeNetwork
from tests.harness.realnode.spec import NodeSpec
from tools.image.archive import ImageConfig, build_image, write_archive
from tools.image.layers import build_layer
from tools.realparts.parts.cni_plugins import FOLDER as CNI_FOLDER

ROOT = Path(__file__).parents[3]
READY_SECONDS = 120.0
"""Generous: the machine may be busy."""


@dataclass(frozen=True)
class NodeParts:
    """The folders of the real parts that a node runs."""

    kubelet: Path
    containerd: Path
    runc: Path
    cni_plugins: Path
    pause: Path


class NodeNotReady(RuntimeError):
    """A node ended or did not become ready; contains the ends of its logs."""

    def __init__(self, name: str, folder: Path) -> None:
        logs = "".join(
            f"\n--- {path.name}\n{_read_tail(path)}" for path in sorted(folder.glob("*.log"))
        )
        super().__init__(f"node {name} is not ready{logs}")


@dataclass(frozen=True)
class RealNode(AbstractContextManager["RealNode"]):
    """A node that is ready, and its control plane, with all controllers and kube-scheduler."""

    spec: NodeSpec
    control_plane: ControlPlane
    _supervisor: subprocess.Popen[str]

    @classmethod
    def start(
        cls, folder: Path, parts: NodeParts, *, name: str = "node-1", images: Sequence[Path] = ()
    ) -> "RealNode":
        """Start both in an empty folder; `images` are archives that the node has from the start."""
        spec = describe_node(folder, parts, name, images)
        supervisor = start_supervisor(spec)
        try:
            if not supervisor.stdout or not supervisor.stdout.readline():
                raise NodeNotReady(name, spec.folder)
            plane = _start_control_plane(folder / "control-plane", spec)
        except BaseException:
            _end(supervisor)
            raise
        node = cls(spec, plane, supervisor)
        try:
            node._wait_until_ready()
        except BaseException:
            node.stop()
            raise
        return node

    def stop(self) -> None:
        """End the node and the control plane, and remove what they leave."""
        _end(self._supervisor)
        # kube-apiserver would wait for the connections of those that are gone.
        for process in self.control_plane.processes:
            process.kill()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _wait_until_ready(self) -> None:
        def is_done() -> bool:
            return self._supervisor.poll() is not None or self.is_ready()

        if not _wait(is_done) or self._supervisor.poll() is not None:
            raise NodeNotReady(self.spec.name, self.spec.folder)

    def is_ready(self) -> bool:
        """Whether the node is ready, and pods may be created in the namespace `default`."""
        access = self.control_plane.access
        status, node = access.request("GET", f"/api/v1/nodes/{self.spec.name}")
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        is_registered = status == 200 and _has_ready_condition(node)
        return is_registered and access.request("GET", account)[0] == 200


def start_supervisor(spec: NodeSpec) -> subprocess.Popen[str]:
    """The supervisor of a node; it ends the node when its standard input is closed."""
    spec.write()
    return subprocess.Popen(
        [sys.executable, "-m", "tests.harness.realnode.supervisor", str(spec.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        start_new_session=True,
    )


def describe_node(
    folder: Path, parts: NodeParts, name: str, images: Sequence[Path] = ()
) -> NodeSpec:
    """A node in an own folder below `folder`, on a network of its own."""
    own = folder / name
    own.mkdir(parents=True)
    pause = own / "pause.tar"
    write_pause_image(parts.pause, pause)
    return NodeSpec(
        name=name,
        folder=own,
        network=NodeNetwork.choose(),
        commands=(parts.kubelet, parts.containerd, parts.runc),
        cni_plugins=parts.cni_plugins / CNI_FOLDER,
        images=(pause, *images),
        filesystem=Path(tempfile.mkdtemp(prefix="kn-")),
    )


def write_pause_image(part: Path, path: Path) -> None:
    """The image whose process holds the namespaces of a pod."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "pause"
        program.write_bytes((part / "pause").read_bytes())
        program.chmod(0o755)
        layer = build_layer(Path(folder), "pause")
    config = ImageConfig(entrypoint=("/pause",), user="65535:65535", environment={}, labels={})
    write_archive(build_image([layer], config), PAUSE_IMAGE, path)


def _start_control_plane(folder: Path, spec: NodeSpec) -> ControlPlane:
    address = NodeFacingAddress(spec.network.api_server, spec.network.services)
    plane = ControlPlane.start(
        folder, controllers="*", with_scheduler=True, authorization="Node,RBAC", address=address
    )
    spec.client_authority.write_bytes(plane.access.ca_file.read_bytes())
    partial = spec.folder / ".kubeconfig"
    plane.write_kubeconfig(partial, f"system:node:{spec.name}", ["system:nodes"])
    partial.rename(spec.kubeconfig)
    return plane


def _has_ready_condition(node: Any) -> bool:
    conditions = node["status"].get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _wait(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + READY_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True


def _end(supervisor: subprocess.Popen[str]) -> None:
    supervisor.communicate()  # closes its standard input


def _read_tail(path: Path, lines: int = 20) -> str:
    return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])
