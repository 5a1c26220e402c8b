"""What this machine lets pods have, in words; and what people can do about what it does not."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from kilonova.local.nodes.process.kubelet.environment import ConfigError
from kilonova.local.nodes.process.kubelet.pods import Container
from kilonova.local.nodes.process.runtime import Capabilities, Mount, Runtime

TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 (where tokens are seen)
_SWITCHES = (
    # (what forbids user namespaces, the value that does, one that does not)
    ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
    ("kernel.unprivileged_userns_clone", "0", "1"),
    ("user.max_user_namespaces", "0", "15000"),
)


class Abilities:
    """Asked of the runtime once: they are the machine's, and stay."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._known: Capabilities | None = None

    async def known(self) -> Capabilities:
        """What pods can have here."""
        if self._known is None:
            self._known = await self._runtime.capabilities()
        return self._known


def ability_labels(found: Capabilities) -> Mapping[str, str]:
    """The same for people, and for node selectors."""
    return {
        "kilonova.dev/pod-network": "private" if found.network else "shared",
        "kilonova.dev/pod-mounts": "allowed" if found.mounts else "forbidden",
        "kilonova.dev/pod-limits": "kept" if found.limits else "ignored",
    }


def possible_mounts(
    container: Container, mounts: Sequence[Mount], found: Capabilities
) -> Sequence[Mount]:
    """The volumes that a container can see; `ConfigError` if it asks for more than that.

    Without namespaces those are the paths of this machine that it sees where they are. It does
    without the token that it got unasked.
    """
    if found.mounts:
        return mounts
    asked = [each for each in mounts if not _is_token(each.target)]
    for each in asked:
        if str(each.source) != each.target:
            raise ConfigError(
                f"container {container.name} mounts a volume at {each.target}, but "
                f"{how_to_allow_mounts()}"
            )
    return asked


def shortfalls(container: Container, found: Capabilities) -> list[tuple[str, str]]:
    """What a container goes without, and runs all the same: reasons and messages of events."""
    short: list[tuple[str, str]] = []
    limits = sorted({"cpu", "memory"} & set(container.resources.limits))
    if limits and not found.limits:
        short.append(
            (
                "LimitsNotKept",
                f"{' and '.join(limits)} may exceed the limit: Kilonova may make no cgroups here; "
                "as root it may, or where systemd hands cpu and memory on to it: "
                "`systemd-run --user --scope -p Delegate=yes kilonova up`",
            )
        )
    if not found.mounts and any(_is_token(each.mount_path) for each in container.volume_mounts):
        short.append(("TokenNotMounted", f"no token at {TOKEN_PATH}: {how_to_allow_mounts()}"))
    return short


def _setting(name: str) -> str:
    try:
        return Path("/proc/sys", *name.split(".")).read_text().strip()
    except OSError:
        return ""


def how_to_allow_mounts(
    setting: Callable[[str], str] = _setting, *, root: bool | None = None
) -> str:
    """Why there can be no mounts, and how there can."""
    text = "this machine forbids mount namespaces: "
    if os.geteuid() == 0 if root is None else root:
        return text + "start Kilonova with CAP_SYS_ADMIN"
    for name, forbids, allows in _SWITCHES:
        if setting(name) == forbids:
            return text + f"run `sudo sysctl -w {name}={allows}` and start Kilonova again"
    return text + "start Kilonova outside of this sandbox or container, or as root"


def _is_token(path: str) -> bool:
    return path.rstrip("/") == TOKEN_PATH
