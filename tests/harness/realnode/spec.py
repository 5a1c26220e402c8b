"""What the processes of a node are told, as a file."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.harness.realnode.network import NodeNetwork


@dataclass(frozen=True)
class NodeSpec:
    """A node to be started."""

    name: str
    folder: Path
    network: NodeNetwork
    commands: tuple[Path, ...]
    """Folders of kubelet, containerd and runc."""
    cni_plugins: Path
    images: tuple[Path, ...]
    """Archives to import before kubelet starts."""
    filesystem: Path
    """Where the node's own folders, such as `/var/lib/kubelet`, lie on this machine: at a short
    path, because sockets in them have paths of at most 107 bytes."""

    @property
    def kubeconfig(self) -> Path:
        """kubelet starts when this file is there."""
        return self.folder / "kubelet.kubeconfig"

    @property
    def client_authority(self) -> Path:
        """The CA whose clients kubelet answers."""
        return self.folder / "ca.crt"

    @property
    def path(self) -> Path:
        """The file of this spec."""
        return self.folder / "node.json"

    def write(self) -> None:
        """Write the file."""
        self.path.write_text(json.dumps(asdict(self), default=str))

    @classmethod
    def read(cls, path: Path) -> "NodeSpec":
        """Read what `write` wrote."""
        fields = json.loads(path.read_text())
        return cls(
            name=fields["name"],
            folder=Path(fields["folder"]),
            network=NodeNetwork(**fields["network"]),
            commands=tuple(map(Path, fields["commands"])),
            cni_plugins=Path(fields["cni_plugins"]),
            images=tuple(map(Path, fields["images"])),
            filesystem=Path(fields["filesystem"]),
        )
