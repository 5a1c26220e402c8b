"""What pods go without where a machine allows less, and what people are told."""

from pathlib import Path

import pytest

from kilonova.local.nodes.process.kubelet.abilities import (
    TOKEN_PATH,
    ability_labels,
    how_to_allow_mounts,
    possible_mounts,
    shortfalls,
)
from kilonova.local.nodes.process.kubelet.environment import ConfigError
from kilonova.local.nodes.process.kubelet.pods import Container
from kilonova.local.nodes.process.runtime import Capabilities, Mount
from tests.local.process.kubelet.kubelet_pods import pod

ALL = Capabilities(mounts=True, limits=True, network=True)
NOTHING = Capabilities(mounts=False, limits=False, network=False)
TOKEN = Mount(Path("/data/token"), TOKEN_PATH, read_only=True)
CODE = Mount(Path("/data/code"), "/app")
IN_PLACE = Mount(Path("/models"), "/models")


def container(**fields: object) -> Container:
    return pod({"name": "main", **fields}).container("main")


def test_labels_say_what_pods_can_have() -> None:
    assert ability_labels(ALL) == {
        "kilonova.dev/pod-network": "private",
        "kilonova.dev/pod-mounts": "allowed",
        "kilonova.dev/pod-limits": "kept",
    }
    assert ability_labels(NOTHING) == {
        "kilonova.dev/pod-network": "shared",
        "kilonova.dev/pod-mounts": "forbidden",
        "kilonova.dev/pod-limits": "ignored",
    }


def test_without_namespaces_only_what_needs_no_mount_is_seen() -> None:
    assert possible_mounts(container(), [TOKEN, CODE], ALL) == [TOKEN, CODE]
    assert possible_mounts(container(), [TOKEN, IN_PLACE], NOTHING) == [IN_PLACE]
    with pytest.raises(ConfigError, match="container main mounts a volume at /app, but this"):
        possible_mounts(container(), [TOKEN, CODE], NOTHING)


@pytest.mark.parametrize(
    ("settings", "advice"),
    [
        (
            {"kernel.apparmor_restrict_unprivileged_userns": "1"},
            "run `sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0` and start",
        ),
        (
            {"kernel.unprivileged_userns_clone": "0"},
            "run `sudo sysctl -w kernel.unprivileged_userns_clone=1` and start",
        ),
        ({"user.max_user_namespaces": "0"}, "sysctl -w user.max_user_namespaces=15000` and start"),
        ({"user.max_user_namespaces": "9000"}, "outside of this sandbox or container, or as root"),
    ],
)
def test_the_way_to_mounts_is_the_one_of_this_machine(
    settings: dict[str, str], advice: str
) -> None:
    assert advice in how_to_allow_mounts(lambda name: settings.get(name, ""), root=False)


def test_root_is_not_told_to_become_root() -> None:
    assert "CAP_SYS_ADMIN" in how_to_allow_mounts(lambda _: "1", root=True)


def test_events_tell_of_what_a_container_goes_without() -> None:
    limited = container(
        resources={"limits": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}},
        volumeMounts=[{"name": "kube-api-access-x", "mountPath": TOKEN_PATH}],
    )
    assert shortfalls(limited, ALL) == []
    (limits, why), (token, where) = shortfalls(limited, NOTHING)
    assert limits == "LimitsNotKept"
    assert why.startswith("cpu and memory may exceed the limit: Kilonova may make no cgroups here")
    assert token == "TokenNotMounted"
    assert where.startswith(f"no token at {TOKEN_PATH}: this machine forbids mount namespaces")
    assert shortfalls(container(), NOTHING) == []
