"""CDI specs as values, and their JSON (https://github.com/cncf-tags/container-device-interface)."""

import re
from collections.abc import Mapping, Sequence

import msgspec

VERSION = "0.6.0"
"""The oldest version that has all fields used here."""
KIND = "kilonova.dev/gpu"
"""Vendor and class."""
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?", re.ASCII)


class DeviceNode(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """A device node that a container gets."""

    path: str
    host_path: str = ""
    """Where it is on the host, if elsewhere."""
    type: str = ""
    major: int = 0
    minor: int = 0
    """Type and numbers are read from the host unless they are set."""
    permissions: str = ""


class Mount(msgspec.Struct, frozen=True, rename="camel"):
    """A file or folder of the host that a container gets."""

    host_path: str
    container_path: str
    options: tuple[str, ...] = ("ro", "nosuid", "nodev", "bind")


class Hook(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """A command that the runtime runs on the host."""

    hook_name: str
    path: str
    args: tuple[str, ...] = ()


class ContainerEdits(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """What is added to a container. `env` has `NAME=VALUE`, which replaces a NAME of the pod."""

    env: tuple[str, ...] = ()
    device_nodes: tuple[DeviceNode, ...] = ()
    mounts: tuple[Mount, ...] = ()
    hooks: tuple[Hook, ...] = ()

    def with_env(self, variables: Mapping[str, str]) -> "ContainerEdits":
        """With more variables; those of the same name are replaced."""
        env = {**dict(each.split("=", 1) for each in self.env), **variables}
        return msgspec.structs.replace(self, env=tuple(f"{k}={v}" for k, v in env.items()))

    def with_mounts(self, mounts: Sequence[Mount]) -> "ContainerEdits":
        """With more mounts."""
        return msgspec.structs.replace(self, mounts=(*self.mounts, *mounts))


def check_name(name: str) -> str:
    """The name of a device, if it may be one. ValueError."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} cannot name a CDI device: use letters, digits and _ . : -")
    return name


def qualified_name(name: str) -> str:
    """The name by which the kubelet passes a device to the runtime: `kilonova.dev/gpu=NAME`."""
    return f"{KIND}={check_name(name)}"


def encode_spec(devices: Mapping[str, ContainerEdits]) -> bytes:
    """The file with these devices."""
    named = tuple(_Device(check_name(name), edits) for name, edits in devices.items())
    return msgspec.json.format(msgspec.json.encode(_Spec(VERSION, KIND, named)), indent=2)


class _Device(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    container_edits: ContainerEdits


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    cdi_version: str
    kind: str
    devices: tuple[_Device, ...]
