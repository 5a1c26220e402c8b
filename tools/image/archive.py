"""An image as one file: the OCI image layout in a tar archive."""

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.image.layers import Layer

_EPOCH = "1970-01-01T00:00:00Z"
_INDEX = "application/vnd.oci.image.index.v1+json"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


@dataclass(frozen=True)
class ImageConfig:
    """How a container of the image runs unless it specifies otherwise."""

    entrypoint: tuple[str, ...]
    user: str
    environment: Mapping[str, str]
    labels: Mapping[str, str]


@dataclass(frozen=True)
class Image:
    """An image in memory: its blobs by digest, and the descriptor of its manifest."""

    blobs: Mapping[str, bytes]
    manifest: Mapping[str, object]

    @property
    def digest(self) -> str:
        """The digest by which registries and runtimes name the image."""
        return str(self.manifest["digest"])


def build_image(layers: Sequence[Layer], config: ImageConfig) -> Image:
    """The blobs of an image for this machine's architecture."""
    blobs: dict[str, bytes] = {}

    def add(kind: str, content: bytes) -> dict[str, object]:
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        blobs[digest] = content
        return {"mediaType": kind, "digest": digest, "size": len(content)}

    system = {"architecture": _get_architecture(), "os": "linux"}
    description = {
        **system,
        "created": _EPOCH,
        "config": {
            "Entrypoint": list(config.entrypoint),
            "User": config.user,
            "Env": [f"{name}={value}" for name, value in config.environment.items()],
            "WorkingDir": "/",
            "Labels": dict(config.labels),
        },
        "rootfs": {"type": "layers", "diff_ids": [layer.diff_id for layer in layers]},
        "history": [{"created": _EPOCH, "created_by": layer.created_by} for layer in layers],
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": _MANIFEST,
        "config": add(_CONFIG, _encode(description)),
        "layers": [add(_LAYER, layer.content) for layer in layers],
        "annotations": dict(config.labels),
    }
    return Image(blobs, {**add(_MANIFEST, _encode(manifest)), "platform": system})


def write_archive(image: Image, name: str, path: Path) -> None:
    """Write the archive; `name` is what runtimes call the image after they have loaded it."""
    annotations = {
        "io.containerd.image.name": name,
        "org.opencontainers.image.ref.name": name.rpartition(":")[2],
    }
    entry = {**image.manifest, "annotations": annotations}
    index = {"schemaVersion": 2, "mediaType": _INDEX, "manifests": [entry]}
    partial = path.with_name(f".{path.name}")
    with tarfile.open(partial, "w") as tar:
        _add(tar, "oci-layout", _encode({"imageLayoutVersion": "1.0.0"}))
        _add(tar, "index.json", _encode(index))
        for digest, content in sorted(image.blobs.items()):
            _add(tar, f"blobs/{digest.replace(':', '/')}", content)
    partial.rename(path)


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    tar.addfile(entry, io.BytesIO(content))


def _encode(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":"), sort_keys=True).encode()


def _get_architecture() -> str:
    machine = platform.machine()
    return _ARCHITECTURES.get(machine, machine)
