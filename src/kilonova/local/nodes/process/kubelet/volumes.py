"""The volumes of one pod: folders of this machine, made, kept up to date, and removed."""

import os
import shutil
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from kilonova.api.json import JsonObject
from kilonova.local.nodes.process.kubelet.atomicfolder import write_files
from kilonova.local.nodes.process.kubelet.claimedvolumes import ClaimedVolumes
from kilonova.local.nodes.process.kubelet.environment import ConfigError
from kilonova.local.nodes.process.kubelet.expansion import expand_by
from kilonova.local.nodes.process.kubelet.payloads import (
    MADE_FROM_OBJECTS,
    Material,
    VolumeError,
    files_of,
    token_requests,
)
from kilonova.local.nodes.process.kubelet.pods import Container, Pod, VolumeMount, volume_source
from kilonova.local.nodes.process.kubelet.tokens import PodTokens
from kilonova.local.nodes.process.runtime import Mount

_MEMORY = Path("/dev/shm")  # noqa: S108 (what is made there is in a folder of our own)
_KINDS = {
    "Directory": (stat.S_ISDIR, "a directory"),
    "DirectoryOrCreate": (stat.S_ISDIR, "a directory"),
    "File": (stat.S_ISREG, "a file"),
    "FileOrCreate": (stat.S_ISREG, "a file"),
    "Socket": (stat.S_ISSOCK, "a socket file"),
    "CharDevice": (stat.S_ISCHR, "a character device"),
    "BlockDevice": (stat.S_ISBLK, "a block device"),
}


class SetUpFailed(Exception):
    """A volume cannot be had now; `FailedMount` says so with this text."""


class PodVolumes:
    """The volumes below a pod's folder, which is named by its uid.

    `allowed` are paths that pods may see of this machine; of what lies in `hidden`, the data
    folder, only volumes that the cluster has made.
    """

    def __init__(
        self,
        folder: Path,
        allowed: Sequence[Path],
        tokens: PodTokens,
        claimed: ClaimedVolumes,
        *,
        hidden: Path,
    ) -> None:
        self._hidden = hidden
        self._uid = folder.name
        self._claimed = claimed
        self._folder = folder / "volumes"
        self._allowed = allowed
        self._tokens = tokens
        self._paths: dict[str, Path] = {}

    async def set_up(self, pod: Pod, material: Material) -> None:
        """Make all volumes, or bring them up to date."""
        for volume in pod.spec.volumes:
            name: str = volume["name"]
            try:
                self._paths[name] = await self._set_up(pod, volume, material)
            except (VolumeError, OSError, ValueError) as error:
                raise SetUpFailed(
                    f'MountVolume.SetUp failed for volume "{name}" : {error}'
                ) from error

    def seconds_to_refresh(self) -> float | None:
        """When tokens have to be asked for again."""
        return self._tokens.seconds_to_refresh()

    def read(self, volume: str, path: str) -> str:
        """The text of a file in a volume."""
        return _inside(self._path(volume), path).read_text()

    def mounts(self, container: Container, variables: Mapping[str, str]) -> tuple[Mount, ...]:
        """Where a container sees which of them."""
        return tuple(self._mount(container, each, variables) for each in container.volume_mounts)

    def remove(self) -> None:
        """Delete them all; what is in memory as well."""
        for folder in (_own_memory(_MEMORY) / self._uid, self._folder):
            shutil.rmtree(folder, ignore_errors=True)

    async def _set_up(self, pod: Pod, volume: JsonObject, material: Material) -> Path:
        kind, source = volume_source(volume)
        path = self._folder / volume["name"]
        if kind in MADE_FROM_OBJECTS:
            for index, wanted in token_requests(volume):
                await self._tokens.ensure(pod, volume["name"], index, wanted)
            write_files(path, files_of(pod, volume, material))
            return path
        if kind == "emptyDir":
            return _empty_folder(path, in_memory=source.get("medium") == "Memory", uid=pod.uid)
        if kind == "hostPath":
            return self._host_path(source)
        if kind in ("persistentVolumeClaim", "ephemeral"):
            own_name = f"{pod.metadata.name}-{volume['name']}"
            claim: str = source["claimName"] if kind == "persistentVolumeClaim" else own_name
            return self._host_path(
                await self._claimed.host_path(pod.metadata.namespace, claim), claimed=True
            )
        raise VolumeError(
            f"{kind} volumes are not served by this node: use emptyDir, configMap, secret, "
            "downwardAPI, projected, persistentVolumeClaim, or hostPath with permission"
        )

    def _host_path(self, source: JsonObject, *, claimed: bool = False) -> Path:
        path = Path(source["path"])
        real = path.resolve()
        is_ours = claimed and self._claimed.is_provisioned(path)
        if not is_ours and not any(real.is_relative_to(each.resolve()) for each in self._allowed):
            raise VolumeError(
                f"hostPath {path} is not allowed on this node: start Kilonova with "
                f"--allow-host-path {path}"
            )
        if not is_ours and self._is_hidden(path):
            raise VolumeError(
                f"hostPath {path} is in the data folder of this cluster, which pods cannot see: "
                "use a folder outside of it"
            )
        kind: str = source.get("type", "")
        if kind == "DirectoryOrCreate" and not path.exists():
            path.mkdir(parents=True, mode=0o755)
        if kind == "FileOrCreate" and not path.exists():
            path.touch(0o644)
        if kind in _KINDS:
            matches, words = _KINDS[kind]
            if not path.exists() or not matches(path.stat().st_mode):
                raise VolumeError(f"hostPath type check failed: {path} is not {words}")
        elif not path.exists():
            raise VolumeError(f"hostPath {path} does not exist")
        return real if is_ours else path

    def _is_hidden(self, path: Path) -> bool:
        return path.resolve().is_relative_to(self._hidden.resolve())

    def _path(self, volume: str) -> Path:
        found = self._paths.get(volume)
        if found is None:
            raise ConfigError(f'cannot find the volume "{volume}"')
        return found

    def _mount(
        self, container: Container, mount: VolumeMount, variables: Mapping[str, str]
    ) -> Mount:
        source = self._path(mount.name)
        below = mount.sub_path
        if mount.sub_path_expr:
            below = _expanded(mount.sub_path_expr, variables)
        if below:
            try:
                volume, source = source, _inside(source, below)
                if self._is_hidden(source) and not self._is_hidden(volume):
                    raise ValueError(f"{source} is in the data folder of this cluster")
                if not source.exists():
                    source.mkdir(parents=True, mode=0o777)
            except (OSError, ValueError) as error:
                raise ConfigError(
                    f'failed to prepare subPath for volumeMount "{mount.name}" of container '
                    f'"{container.name}"'
                ) from error
        target = mount.mount_path if mount.mount_path.startswith("/") else f"/{mount.mount_path}"
        return Mount(source, target, mount.read_only)


def memory_folder(uid: str, memory: Path = _MEMORY) -> Path:
    """The folder of a pod in memory. Everybody may write there, so that it is in one of our own."""
    own = _own_memory(memory)
    own.mkdir(mode=0o700, exist_ok=True)
    found = own.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise OSError(f"{own} is not a folder of this user alone: remove it")
    (own / uid).mkdir(mode=0o700, exist_ok=True)
    return own / uid


def _own_memory(memory: Path) -> Path:
    return memory / f"kilonova-{os.geteuid()}"


def _empty_folder(path: Path, *, in_memory: bool, uid: str) -> Path:
    if in_memory and _MEMORY.is_dir():
        real = memory_folder(uid) / path.name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_symlink():
            path.symlink_to(real)
        path = real
    path.mkdir(parents=True, exist_ok=True)
    if path.stat().st_mode & 0o7777 != 0o777:
        path.chmod(0o777)
    return path


def _expanded(text: str, variables: Mapping[str, str]) -> str:
    missing: set[str] = set()

    def value(name: str) -> str:
        found = variables.get(name, "")
        if not found:
            missing.add(name)
        return found

    expanded = expand_by(text, value)
    if missing:
        raise ConfigError(f"missing value for {', '.join(sorted(missing))}")
    return expanded


def _inside(volume: Path, below: str) -> Path:
    """A path in a volume, and not out of it by any link."""
    if os.path.isabs(below) or ".." in below.split("/"):
        raise ConfigError(f"unable to provision SubPath `{below}`: must not contain '..'")
    path = volume / below
    if not path.resolve().is_relative_to(volume.resolve()):
        raise ConfigError(f"unable to provision SubPath `{below}`: it leads out of the volume")
    return path
