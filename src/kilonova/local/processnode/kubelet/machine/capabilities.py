"""What this machine allows pods to have, and how to enable what it does not."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from kilonova.local.processnode.cri.api import Capabilities, Mount, Runtime
from kilonova.local.processnode.kubelet.environment.variables import ContainerConfigError
from kilonova.local.processnode.kubelet.objects import Container

TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 (where tokens are seen)
_NAMESPACE_SYSCTLS = (
    # (sysctl that forbids user namespaces, the value that forbids them, the value that allows them)
    ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
    ("kernel.unprivileged_userns_clone", "0", "1"),
    ("user.max_user_namespaces", "0", "15000"),
)


class RuntimeCapabilities:
    """The runtime's capabilities, requested once: they do not change."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._cached: Capabilities | None = None

    async def get(self) -> Capabilities:
        """What pods can have here."""
        if self._cached is None:
            self._cached = await self._runtime.capabilities()
        return self._cached


def build_capability_labels(capabilities: Capabilities) -> Mapping[str, str]:
    """The capabilities as node labels."""
    return {
        "kilonova.dev/pod-network": "private" if capabilities.network else "shared",
        "kilonova.dev/pod-mounts": "allowed" if capabilities.mounts else "forbidden",
        "kilonova.dev/pod-limits": "kept" if capabilities.limits else "ignored",
    }


def select_possible_mounts(
    container: Container, mounts: Sequence[Mount], capabilities: Capabilities
) -> Sequence[Mount]:
    """The volumes that a container can mount; `ContainerConfigError` if it needs namespaces.

    Without mount namespaces those are volumes at their own path on this machine. The default
    service account token is left out.
    """
    if capabilities.mounts:
        return mounts
    asked = [each for each in mounts if not _is_token_path(each.target)]
    for each in asked:
        if str(each.source) != each.target:
            raise ContainerConfigError(
                f"container {container.name} mounts a volume at {each.target}, but "
                f"{explain_missing_mounts()}"
            )
    return asked


def find_missing_features(
    container: Container, capabilities: Capabilities
) -> list[tuple[str, str]]:
    """Features that a container runs without: reasons and messages of events."""
    short: list[tuple[str, str]] = []
    limits = sorted({"cpu", "memory"} & set(container.resources.limits))
    if limits and not capabilities.limits:
        short.append(
            (
                "LimitsNotEnforced",
                f"{' and '.join(limits)} limits are not enforced: Kilonova cannot create cgroups "
                "here; run it as root, or where systemd delegates cpu and memory: "
                "`systemd-run --user --scope -p Delegate=yes kilonova up`",
            )
        )
    if not capabilities.mounts and any(
        _is_token_path(each.mount_path) for each in container.volume_mounts
    ):
        short.append(("TokenNotMounted", f"no token at {TOKEN_PATH}: {explain_missing_mounts()}"))
    return short


def _read_sysctl(name: str) -> str:
    try:
        return Path("/proc/sys", *name.split(".")).read_text().strip()
    except OSError:
        return ""


def explain_missing_mounts(
    read_sysctl: Callable[[str], str] = _read_sysctl, *, root: bool | None = None
) -> str:
    """Why mounts are not available, and how to enable them."""
    text = "this machine forbids mount namespaces: "
    if os.geteuid() == 0 if root is None else root:
        return text + "start Kilonova with CAP_SYS_ADMIN"
    for name, forbids, allows in _NAMESPACE_SYSCTLS:
        if read_sysctl(name) == forbids:
            return text + f"run `sudo sysctl -w {name}={allows}` and start Kilonova again"
    return text + "start Kilonova outside this sandbox or container, or as root"


def _is_token_path(path: str) -> bool:
    return path.rstrip("/") == TOKEN_PATH
