"""Features that pods run without on a restricted machine, and the messages about them."""

from pathlib import Path

import pytest

from kilonova.local.processnode.cri.api import Capabilities, Mount
from kilonova.local.processnode.kubelet.environment.variables import ContainerConfigError
from kilonova.local.processnode.kubelet.machine.capabilities import (
    TOKEN_PATH,
    build_capability_labels,
    explain_missing_mounts,
    find_missing_features,
    select_possible_mounts,
)
from kilonova.local.processnode.kubelet.objects import Container
from tests.local.processnode.kubelet.kubelet_pods import pod

ALL = Capabilities(mounts=True, limits=True, network=True)
NOTHING = Capabilities(mounts=False, limits=False, network=False)
TOKEN = Mount(Path("/data/token"), TOKEN_PATH, read_only=True)
CODE = Mount(Path("/data/code"), "/app")
IN_PLACE = Mount(Path("/models"), "/models")


def container(**fields: object) -> Container:
    return pod({"name": "main", **fields}).container("main")


def test_labels_describe_capabilities() -> None:
    assert build_capability_labels(ALL) == {
        "kilonova.dev/pod-network": "private",
        "kilonova.dev/pod-mounts": "allowed",
        "kilonova.dev/pod-limits": "kept",
    }
    assert build_capability_labels(NOTHING) == {
        "kilonova.dev/pod-network": "shared",
        "kilonova.dev/pod-mounts": "forbidden",
        "kilonova.dev/pod-limits": "ignored",
    }


def test_without_namespaces_only_what_needs_no_mount_is_seen() -> None:
    assert select_possible_mounts(container(), [TOKEN, CODE], ALL) == [TOKEN, CODE]
    assert select_possible_mounts(container(), [TOKEN, IN_PLACE], NOTHING) == [IN_PLACE]
    with pytest.raises(
        ContainerConfigError, match="container main mounts a volume at /app, but this"
    ):
        select_possible_mounts(container(), [TOKEN, CODE], NOTHING)


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
        ({"user.max_user_namespaces": "9000"}, "outside this sandbox or container, or as root"),
    ],
)
def test_hint_for_mounts_depends_on_the_machine(settings: dict[str, str], advice: str) -> None:
    assert advice in explain_missing_mounts(lambda name: settings.get(name, ""), root=False)


def test_hint_for_root_does_not_suggest_root() -> None:
    assert "CAP_SYS_ADMIN" in explain_missing_mounts(lambda _: "1", root=True)


def test_events_report_missing_features() -> None:
    limited = container(
        resources={"limits": {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}},
        volumeMounts=[{"name": "kube-api-access-x", "mountPath": TOKEN_PATH}],
    )
    assert find_missing_features(limited, ALL) == []
    (limits, why), (token, where) = find_missing_features(limited, NOTHING)
    assert limits == "LimitsNotEnforced"
    assert why.startswith("cpu and memory limits are not enforced: Kilonova cannot create")
    assert token == "TokenNotMounted"
    assert where.startswith(f"no token at {TOKEN_PATH}: this machine forbids mount namespaces")
    assert find_missing_features(container(), NOTHING) == []
