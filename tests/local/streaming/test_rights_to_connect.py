"""Who may run something in a pod: `create` on pods/exec, and `get` too for a WebSocket."""

from typing import Any

import pytest

from kilonova.kube.resource import plain
from tests.local.streaming.scene import Scene

ROLES = plain("rbac.authorization.k8s.io", "v1", "roles", "Role", True)
BINDINGS = plain("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", True)
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
async def test_exec_needs(scene: Scene, verbs: list[str], over: str, may: bool) -> None:
    await scene.pod("web")
    rules: Any = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    if verbs:
        rules.append({"apiGroups": [""], "resources": ["pods/exec"], "verbs": verbs})
    await scene.client.create(ROLES, {"metadata": {"name": "r"}, "rules": rules}, "default")
    binding: Any = {
        "metadata": {"name": "r"},
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": "r"},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": "jane"}],
    }
    await scene.client.create(BINDINGS, binding, "default")
    env = {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": over}
    ended = await scene.run("--as=jane", "exec", "web", "--", "echo", "hello", env=env)
    if may:
        assert (ended.out, ended.err) == (b"hello\n", b"")
    else:
        assert b'pods "web" is forbidden: User "jane" cannot create resource' in ended.err
        assert not scene.machine.started
