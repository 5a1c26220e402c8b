"""Somebody who may see some kinds of a cluster, and others not: rights come and go."""

from dataclasses import dataclass

from tests.conftest import Api
from tests.harness.rights import Account
from tests.local.admission.webhook_server import until

_RBAC = "/apis/rbac.authorization.k8s.io/v1"

Kind = tuple[str, str]
"""Group and resource."""

NODES: Kind = ("", "nodes")
PODS: Kind = ("", "pods")
QUEUES: Kind = ("scheduling.kilonova.dev", "queues")
OTHERS: tuple[Kind, ...] = (
    QUEUES,
    ("", "events"),
    ("grove.io", "podcliquesets"),
    ("grove.io", "podcliques"),
    ("apps", "deployments"),
    ("apps", "statefulsets"),
    ("batch", "jobs"),
    ("scheduler.grove.io", "podgangs"),
)


@dataclass(frozen=True, slots=True)
class Viewer:
    """An account that may do nothing but what it was granted."""

    account: Account

    @classmethod
    def create(cls, api: Api) -> "Viewer":
        """One of a namespace."""
        path = f"/api/v1/namespaces/{api.namespace}/serviceaccounts"
        code, answer = api.access.ask("POST", path, {"metadata": {"name": "viewer"}})
        assert code == 201, answer
        return cls(Account(api, api.namespace, "viewer"))

    def grant(self, *kinds: Kind) -> None:
        """Let it list and watch them everywhere, from now on."""
        for kind in kinds:
            name = self._role(kind)
            rule = {"apiGroups": [kind[0]], "resources": [kind[1]], "verbs": ["list", "watch"]}
            self._ask("POST", "clusterroles", {"metadata": {"name": name}, "rules": [rule]})
            role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
            space, whom = self.account.namespace, self.account.name
            subject = {"kind": "ServiceAccount", "name": whom, "namespace": space}
            body = {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]}
            self._ask("POST", "clusterrolebindings", body)
        until(lambda: all(self._may(kind) for kind in kinds))

    def revoke(self, kind: Kind) -> None:
        """Take a right away."""
        self._ask("DELETE", f"clusterrolebindings/{self._role(kind)}")
        self._ask("DELETE", f"clusterroles/{self._role(kind)}")
        until(lambda: not self._may(kind))

    def _may(self, kind: Kind) -> bool:
        return self.account.may("watch", *kind, "")

    def _role(self, kind: Kind) -> str:
        return f"viewer-{self.account.namespace}-{kind[1]}"

    def _ask(self, method: str, path: str, body: object = None) -> None:
        code, answer = self.account.api.access.ask(method, f"{_RBAC}/{path}", body)
        assert code in (200, 201), answer
