"""The volumes of one pod: directories of this machine, set up, refreshed and removed."""

import os
import shutil
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from kilonova.api.json import JsonObject
from kilonova.local.processnode.cri.api import Mount
from kilonova.local.processnode.kubelet.environment.expansion import expand_references_with
from kilonova.local.processnode.kubelet.environment.variables import ContainerConfigError
from kilonova.local.processnode.kubelet.objects import Container, Pod, VolumeMount, volume_source
from kilonova.local.processnode.kubelet.volumes.atomic_writer import write_directory
from kilonova.local.processnode.kubelet.volumes.persistent_volumes import PersistentVolumeResolver
from kilonova.local.processnode.kubelet.volumes.projection import (
    PROJECTED_KINDS,
    VolumeError,
    VolumeInputs,
    build_volume_files,
    find_token_requests,
)
from kilonova.local.processnode.kubelet.volumes.service_account_tokens import ServiceAccountTokens

_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 (what is made there is in a folder of our own)
_HOST_PATH_TYPES = {
    "Directory": (stat.S_ISDIR, "a directory"),
    "DirectoryOrCreate": (stat.S_ISDIR, "a directory"),
    "File": (stat.S_ISREG, "a file"),
    "FileOrCreate": (stat.S_ISREG, "a file"),
    "Socket": (stat.S_ISSOCK, "a socket file"),
    "CharDevice": (stat.S_ISCHR, "a character device"),
    "BlockDevice": (stat.S_ISBLK, "a block device"),
}


class VolumeSetUpError(Exception):
    """A volume cannot be set up now; the message of the `FailedMount` event."""


class PodVolumeManager:
    """The volumes below a pod's directory, which is named by its uid.

    `allowed` are host paths that pods may mount; within `hidden`, the data directory, only volumes
    that the cluster provisioned.
    """

    def __init__(
        self,
        pod_directory: Path,
        allowed: Sequence[Path],
        tokens: ServiceAccountTokens,
        persistent_volumes: PersistentVolumeResolver,
        *,
        hidden: Path,
    ) -> None:
        self._hidden = hidden
        self._uid = pod_directory.name
        self._persistent_volumes = persistent_volumes
        self._directory = pod_directory / "volumes"
        self._allowed = allowed
        self._tokens = tokens
        self._paths: dict[str, Path] = {}

    async def set_up(self, pod: Pod, inputs: VolumeInputs) -> None:
        """Set up all volumes, or refresh them."""
        for volume in pod.spec.volumes:
            name: str = volume["name"]
            try:
                self._paths[name] = await self._set_up_volume(pod, volume, inputs)
            except (VolumeError, OSError, ValueError) as error:
                raise VolumeSetUpError(
                    f'MountVolume.SetUp failed for volume "{name}" : {error}'
                ) from error

    def seconds_to_refresh(self) -> float | None:
        """Seconds until a token has to be renewed."""
        return self._tokens.seconds_to_refresh()

    def read_file(self, volume: str, path: str) -> str:
        """The text of a file in a volume."""
        return _resolve_inside(self._volume_path(volume), path).read_text()

    def build_mounts(self, container: Container, variables: Mapping[str, str]) -> tuple[Mount, ...]:
        """The volume mounts of a container."""
        return tuple(
            self._build_mount(container, each, variables) for each in container.volume_mounts
        )

    def remove(self) -> None:
        """Remove all volumes, including those in memory."""
        for folder in (_user_memory_directory(_SHARED_MEMORY) / self._uid, self._directory):
            shutil.rmtree(folder, ignore_errors=True)

    async def _set_up_volume(self, pod: Pod, volume: JsonObject, inputs: VolumeInputs) -> Path:
        kind, source = volume_source(volume)
        path = self._directory / volume["name"]
        if kind in PROJECTED_KINDS:
            for index, desired in find_token_requests(volume):
                await self._tokens.ensure_token(pod, volume["name"], index, desired)
            write_directory(path, build_volume_files(pod, volume, inputs))
            return path
        if kind == "emptyDir":
            return _create_empty_dir(path, in_memory=source.get("medium") == "Memory", uid=pod.uid)
        if kind == "hostPath":
            return self._resolve_host_path(source)
        if kind in ("persistentVolumeClaim", "ephemeral"):
            own_name = f"{pod.metadata.name}-{volume['name']}"
            claim: str = source["claimName"] if kind == "persistentVolumeClaim" else own_name
            return self._resolve_host_path(
                await self._persistent_volumes.resolve_host_path(pod.metadata.namespace, claim),
                claimed=True,
            )
        raise VolumeError(
            f"{kind} volumes are not supported on this node: use emptyDir, configMap, secret, "
            "downwardAPI, projected, persistentVolumeClaim, or an allowed hostPath"
        )

    def _resolve_host_path(self, source: JsonObject, *, claimed: bool = False) -> Path:
        path = Path(source["path"])
        real = path.resolve()
        is_ours = claimed and self._persistent_volumes.is_provisioned(path)
        if not is_ours and not any(real.is_relative_to(each.resolve()) for each in self._allowed):
            raise VolumeError(
                f"hostPath {path} is not allowed on this node: start Kilonova with "
                f"--allow-host-path {path}"
            )
        if not is_ours and self._is_hidden(path):
            raise VolumeError(
                f"hostPath {path} is in the data directory of this cluster, which is hidden from "
                "pods: use a directory outside of it"
            )
        kind: str = source.get("type", "")
        if kind == "DirectoryOrCreate" and not path.exists():
            path.mkdir(parents=True, mode=0o755)
        if kind == "FileOrCreate" and not path.exists():
            path.touch(0o644)
        if kind in _HOST_PATH_TYPES:
            matches, description = _HOST_PATH_TYPES[kind]
            if not path.exists() or not matches(path.stat().st_mode):
                raise VolumeError(f"hostPath type check failed: {path} is not {description}")
        elif not path.exists():
            raise VolumeError(f"hostPath {path} does not exist")
        return real if is_ours else path

    def _is_hidden(self, path: Path) -> bool:
        return path.resolve().is_relative_to(self._hidden.resolve())

    def _volume_path(self, volume: str) -> Path:
        found = self._paths.get(volume)
        if found is None:
            raise ContainerConfigError(f'cannot find the volume "{volume}"')
        return found

    def _build_mount(
        self, container: Container, mount: VolumeMount, variables: Mapping[str, str]
    ) -> Mount:
        source = self._volume_path(mount.name)
        below = mount.sub_path
        if mount.sub_path_expr:
            below = _expand_sub_path(mount.sub_path_expr, variables)
        if below:
            try:
                volume, source = source, _resolve_inside(source, below)
                if self._is_hidden(source) and not self._is_hidden(volume):
                    raise ValueError(f"{source} is in the data directory of this cluster")
                if not source.exists():
                    source.mkdir(parents=True, mode=0o777)
            except (OSError, ValueError) as error:
                raise ContainerConfigError(
                    f'failed to prepare subPath for volumeMount "{mount.name}" of container '
                    f'"{container.name}"'
                ) from error
        target = mount.mount_path if mount.mount_path.startswith("/") else f"/{mount.mount_path}"
        return Mount(source, target, mount.read_only)


def create_memory_directory(uid: str, memory: Path = _SHARED_MEMORY) -> Path:
    """A pod's directory in shared memory. /dev/shm is writable by all, so it is in a directory of
    our own.
    """
    own = _user_memory_directory(memory)
    own.mkdir(mode=0o700, exist_ok=True)
    found = own.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise OSError(f"{own} is not a directory that only this user can access: remove it")
    (own / uid).mkdir(mode=0o700, exist_ok=True)
    return own / uid


def _user_memory_directory(memory: Path) -> Path:
    return memory / f"kilonova-{os.geteuid()}"


def _create_empty_dir(path: Path, *, in_memory: bool, uid: str) -> Path:
    if in_memory and _SHARED_MEMORY.is_dir():
        real = create_memory_directory(uid) / path.name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_symlink():
            path.symlink_to(real)
        path = real
    path.mkdir(parents=True, exist_ok=True)
    if path.stat().st_mode & 0o7777 != 0o777:
        path.chmod(0o777)
    return path


def _expand_sub_path(text: str, variables: Mapping[str, str]) -> str:
    missing: set[str] = set()

    def value(name: str) -> str:
        found = variables.get(name, "")
        if not found:
            missing.add(name)
        return found

    expanded = expand_references_with(text, value)
    if missing:
        raise ContainerConfigError(f"missing value for {', '.join(sorted(missing))}")
    return expanded


def _resolve_inside(volume: Path, below: str) -> Path:
    """A path inside a volume; symbolic links may not lead outside."""
    if os.path.isabs(below) or ".." in below.split("/"):
        raise ContainerConfigError(f"unable to provision SubPath `{below}`: must not contain '..'")
    path = volume / below
    if not path.resolve().is_relative_to(volume.resolve()):
        raise ContainerConfigError(
            f"unable to provision SubPath `{below}`: it leads outside of the volume"
        )
    return path
