"""Questions about who somebody is and what they may do, asked as objects that are never stored.

Everybody who is known may do everything: the authorizer of this server is Kubernetes'
`AlwaysAllow`. The answers say just that.
"""

from kilonova.api.json import JsonObject
from kilonova.local.auth import Authenticator, InvalidToken, User
from kilonova.local.errors import Problem, invalid, invalid_value
from kilonova.local.kinds.base import Kind
from kilonova.local.kinds.walk import part

_EVERYTHING: JsonObject = {
    "incomplete": False,
    "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
}


class Reviews:
    """Answers SelfSubjectReview, TokenReview and the access reviews."""

    def __init__(self, authenticator: Authenticator) -> None:
        self._authenticator = authenticator

    def handles(self, kind: Kind) -> bool:
        return kind.group in ("authentication.k8s.io", "authorization.k8s.io")

    def answer(self, kind: Kind, review: JsonObject, user: User) -> JsonObject:
        """The review with its status filled in."""
        answered: JsonObject = {
            "kind": kind.kind,
            "apiVersion": kind.api_version,
            "metadata": review.get("metadata") or {},
        }
        if kind.kind == "SelfSubjectReview":
            return {**answered, "status": {"userInfo": _user_info(user)}}
        spec = part(review, "spec")
        answered["spec"] = spec
        if problems := _access_problems(kind, spec):
            raise invalid(kind.group, "", "", problems)
        if kind.kind == "TokenReview":
            answered["status"] = self._token_status(spec)
        elif kind.kind == "SelfSubjectRulesReview":
            answered["status"] = _EVERYTHING
        else:
            answered["status"] = {"allowed": True}
        return answered

    def _token_status(self, spec: JsonObject) -> JsonObject:
        try:
            user, audiences = self._authenticator.review(
                spec.get("token", ""), spec.get("audiences") or ()
            )
        except InvalidToken as error:
            return {"user": {}, "error": str(error)}
        return {"authenticated": True, "user": _user_info(user), "audiences": list(audiences)}


def _access_problems(kind: Kind, spec: JsonObject) -> list[Problem]:
    if not kind.kind.endswith("SubjectAccessReview"):
        return []
    problems: list[Problem] = []
    attributes = spec.get("resourceAttributes")
    if (attributes is None) == (spec.get("nonResourceAttributes") is None):
        detail = (
            "exactly one of nonResourceAttributes or resourceAttributes must be specified"
            if attributes is None
            else "cannot be specified in combination with resourceAttributes"
        )
        path = "spec.resourceAttributes" if attributes is None else "spec.nonResourceAttributes"
        problems.append(invalid_value(path, attributes, detail))
    is_own = kind.kind == "SelfSubjectAccessReview"
    if not is_own and not spec.get("user") and not spec.get("groups"):
        problems.append(
            invalid_value("spec.user", "", "at least one of user or group must be specified")
        )
    return problems


def _user_info(user: User) -> JsonObject:
    info: JsonObject = {
        "username": user.name,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": {key: list(values) for key, values in user.extra.items()},
    }
    return {key: value for key, value in info.items() if value}
