"""Permissions of a deployed ServiceAccount."""

from dataclasses import dataclass

from tests.conftest import Api

Permission = tuple[str, str, str, str]
"""Verb, group, resource[/subresource], namespace."""


@dataclass(frozen=True, slots=True)
class ServiceAccount:
    """A ServiceAccount on a server."""

    api: Api
    namespace: str
    name: str

    def request_token(self) -> str:
        """A token that is valid for an hour."""
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{self.name}/token"
        code, answer = self.api.access.request("POST", path, {"spec": {"expirationSeconds": 3600}})
        assert code == 201, answer
        return answer["status"]["token"]

    def is_allowed(
        self, verb: str, group: str, resource: str, namespace: str, name: str = ""
    ) -> bool:
        """Whether the server authorizes the request."""
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
        code, answer = self.api.access.request("POST", path, {"spec": spec})
        assert code == 201, answer
        return answer["status"]["allowed"]
