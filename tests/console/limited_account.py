"""A service account whose permissions are granted and revoked by tests."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.conftest import Api
from tests.harness.permissions import ServiceAccount
from tests.local.apiserver.admission.webhooks.webhook_server import wait_until

_RBAC = "/apis/rbac.authorization.k8s.io/v1"

Kind = tuple[str, str]
"""Group and resource."""

NODES: Kind = ("", "nodes")
PODS: Kind = ("", "pods")
QUEUES: Kind = ("scheduling.kilonova.dev", "queues")
_CONSOLE_ROLE = Path(__file__).parents[2] / "deploy" / "console" / "clusterrole.yaml"


def _list_watched_kinds() -> Iterator[Kind]:
    """The kinds that the console's own role may watch: those on its pages."""
    for document in yaml.safe_load_all(_CONSOLE_ROLE.read_text()):
        for rule in document.get("rules", ()):
            if "watch" in rule["verbs"]:
                yield from itertools.product(rule["apiGroups"], rule["resources"])


OTHERS = tuple(kind for kind in _list_watched_kinds() if kind not in (NODES, PODS))
"""All that the console shows, beside nodes and pods."""


@dataclass(frozen=True, slots=True)
class LimitedAccount:
    """A service account with only the permissions granted to it."""

    account: ServiceAccount

    @classmethod
    def create(cls, api: Api) -> "LimitedAccount":
        """Create the account in the test's namespace."""
        path = f"/api/v1/namespaces/{api.namespace}/serviceaccounts"
        code, reply = api.access.request("POST", path, {"metadata": {"name": "viewer"}})
        assert code == 201, reply
        return cls(ServiceAccount(api, api.namespace, "viewer"))

    def grant(self, *kinds: Kind) -> None:
        """Allow list and watch of resources in all namespaces."""
        for kind in kinds:
            name = self._role_name(kind)
            rule = {"apiGroups": [kind[0]], "resources": [kind[1]], "verbs": ["list", "watch"]}
            self._request("POST", "clusterroles", {"metadata": {"name": name}, "rules": [rule]})
            role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
            namespace, account = self.account.namespace, self.account.name
            subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
            body = {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]}
            self._request("POST", "clusterrolebindings", body)
        wait_until(lambda: all(self._is_allowed(kind) for kind in kinds))

    def revoke(self, kind: Kind) -> None:
        """Revoke a permission."""
        self._request("DELETE", f"clusterrolebindings/{self._role_name(kind)}")
        self._request("DELETE", f"clusterroles/{self._role_name(kind)}")
        wait_until(lambda: not self._is_allowed(kind))

    def _is_allowed(self, kind: Kind) -> bool:
        return self.account.is_allowed("watch", *kind, "")

    def _role_name(self, kind: Kind) -> str:
        return f"viewer-{self.account.namespace}-{'.'.join(kind)}"

    def _request(self, method: str, path: str, body: object = None) -> None:
        code, reply = self.account.api.access.request(method, f"{_RBAC}/{path}", body)
        assert code in (200, 201), reply
