"""What an account that somebody deployed may do."""

from dataclasses import dataclass

from tests.conftest import Api

Act = tuple[str, str, str, str]
"""Verb, group, resource[/subresource], namespace."""


@dataclass(frozen=True, slots=True)
class Account:
    """A ServiceAccount on a server."""

    api: Api
    namespace: str
    name: str

    def token(self) -> str:
        """By which it is known for an hour."""
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{self.name}/token"
        code, answer = self.api.access.ask("POST", path, {"spec": {"expirationSeconds": 3600}})
        assert code == 201, answer
        return answer["status"]["token"]

    def may(self, verb: str, group: str, resource: str, namespace: str, name: str = "") -> bool:
        """Whether the server would let it."""
        plural, _, part = resource.partition("/")
        attributes = {"verb": verb, "group": group, "resource": plural, "subresource": part}
        attributes |= {"namespace": namespace, "name": name}
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{self.namespace}"]
        spec = {
            "user": f"system:serviceaccount:{self.namespace}:{self.name}",
            "groups": [*groups, "system:authenticated"],
            "resourceAttributes": attributes,
        }
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        code, answer = self.api.access.ask("POST", path, {"spec": spec})
        assert code == 201, answer
        return answer["status"]["allowed"]
