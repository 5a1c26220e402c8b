"""Authorization of exec: `create` on pods/exec, and `get` too for a WebSocket."""

from typing import Any

import pytest

from kilonova.kube.client.resource import unstructured_resource
from tests.local.apiserver.streaming.streaming_cluster import StreamingCluster

pytestmark = pytest.mark.usefixtures("kubectl_path")

ROLES = unstructured_resource("rbac.authorization.k8s.io", "v1", "roles", "Role", True)
BINDINGS = unstructured_resource(
    "rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", True
)
RBAC = "rbac.authorization.k8s.io"


@pytest.mark.parametrize(
    ("verbs", "over", "may"),
    [
        ([], "true", False),
        (["get"], "true", False),
        (["create"], "false", True),
        (["create"], "true", True),  # kubectl falls back to SPDY
        (["create", "get"], "true", True),
    ],
)
async def test_exec_requires_permission(
    streaming_cluster: StreamingCluster, verbs: list[str], over: str, may: bool
) -> None:
    await streaming_cluster.pod("web")
    rules: Any = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    if verbs:
        rules.append({"apiGroups": [""], "resources": ["pods/exec"], "verbs": verbs})
    await streaming_cluster.client.create(
        ROLES, {"metadata": {"name": "r"}, "rules": rules}, "default"
    )
    binding: Any = {
        "metadata": {"name": "r"},
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": "r"},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": "jane"}],
    }
    await streaming_cluster.client.create(BINDINGS, binding, "default")
    env = {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": over}
    ended = await streaming_cluster.run("--as=jane", "exec", "web", "--", "echo", "hello", env=env)
    if may:
        assert (ended.out, ended.err) == (b"hello\n", b"")
    else:
        assert b'pods "web" is forbidden: User "jane" cannot create resource' in ended.err
        assert not streaming_cluster.machine.started
