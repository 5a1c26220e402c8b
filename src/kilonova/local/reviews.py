"""Questions about who somebody is and what they may do, asked as objects that are never stored."""

from collections.abc import Callable

from kilonova.api.json import JsonObject
from kilonova.api.times import rfc3339
from kilonova.local.auth import Action, Authenticator, InvalidToken, User, user_info
from kilonova.local.auth.rbac import Rbac, Rule, trouble
from kilonova.local.clock import Clock
from kilonova.local.errors import ApiError, Problem, bad_request, invalid, invalid_value, required
from kilonova.local.kinds.base import Kind
from kilonova.local.kinds.walk import part
from kilonova.local.routes import Target
from kilonova.local.selectors import parse_field_selector, parse_label_selector

_ATTRIBUTES = "spec.resourceAttributes"
_SELECTORS: tuple[tuple[str, Callable[[str], object]], ...] = (
    ("fieldSelector", parse_field_selector),
    ("labelSelector", parse_label_selector),
)


class Reviews:
    """Answers SelfSubjectReview, TokenReview and the access reviews."""

    def __init__(self, authenticator: Authenticator, rbac: Rbac, clock: Clock) -> None:
        self._authenticator = authenticator
        self._rbac = rbac
        self._clock = clock

    def handles(self, kind: Kind) -> bool:
        return kind.group in ("authentication.k8s.io", "authorization.k8s.io")

    def answer(self, target: Target, review: JsonObject, user: User) -> JsonObject:
        """The review with its status filled in."""
        kind = target.kind
        metadata: JsonObject = review.get("metadata") or {}
        if kind.namespaced:
            metadata.setdefault("namespace", target.namespace)
        spec = part(review, "spec")
        answered: JsonObject = {
            "kind": kind.kind,
            "apiVersion": kind.api_version,
            "metadata": metadata,
        }
        match kind.kind:
            case "SelfSubjectReview":
                metadata["creationTimestamp"] = rfc3339(self._clock.now())
                return {**answered, "status": {"userInfo": user_info(user)}}
            case "SelfSubjectRulesReview":
                return {**answered, "spec": {}, "status": self._rules_status(spec, user)}
            case "TokenReview":
                status = self._token_status(spec)
            case _:
                status = self._access_status(kind, metadata, spec, user)
        return {**answered, "spec": spec, "status": status}

    def _token_status(self, spec: JsonObject) -> JsonObject:
        try:
            user, audiences = self._authenticator.review(
                spec.get("token", ""), spec.get("audiences") or ()
            )
        except InvalidToken as error:
            # Kubernetes tells what each of its ways to read a token says, one of which is this.
            known, said = "invalid bearer token", str(error)
            return {"user": {}, "error": said if said == known else f"[{known}, {said}]"}
        return {"authenticated": True, "user": user_info(user), "audiences": list(audiences)}

    def _rules_status(self, spec: JsonObject, user: User) -> JsonObject:
        namespace: str = spec.get("namespace", "")
        if not namespace:
            raise bad_request("no namespace on request")
        rules, broken = self._rbac.rules_for(user, namespace)
        status: JsonObject = {
            "resourceRules": [_resource_rule(rule) for rule in rules if rule.resources],
            "nonResourceRules": [
                {"verbs": rule.verbs, "nonResourceURLs": rule.non_resource_urls}
                for rule in rules
                if rule.non_resource_urls
            ],
            "incomplete": False,
        }
        if broken:
            status["evaluationError"] = trouble(broken)
        return status

    def _access_status(
        self, kind: Kind, metadata: JsonObject, spec: JsonObject, user: User
    ) -> JsonObject:
        if problems := _access_problems(kind, metadata, spec):
            raise invalid(kind.group, "", "", problems)
        if kind.kind != "SelfSubjectAccessReview":
            user = User(spec.get("user", ""), spec.get("uid", ""), tuple(spec.get("groups") or ()))
        verdict = self._rbac.decide(user, _action(spec))
        status: JsonObject = {"allowed": verdict.allowed}
        if verdict.reason:
            status["reason"] = verdict.reason
        if ignored := _ignored_selectors(spec):
            status["evaluationError"] = "; ".join(ignored)
        return status


def _action(spec: JsonObject) -> Action:
    if path := spec.get("nonResourceAttributes"):
        return Action(path.get("verb", ""), path=path.get("path", ""))
    asked = part(spec, "resourceAttributes")
    return Action(
        asked.get("verb", ""),
        asked.get("group", ""),
        asked.get("version", ""),
        asked.get("resource", ""),
        asked.get("subresource", ""),
        asked.get("namespace", ""),
        asked.get("name", ""),
    )


def _ignored_selectors(spec: JsonObject) -> list[str]:
    """Selectors that cannot be read: the question is answered as if they were not there."""
    ignored: list[str] = []
    for name, parse in _SELECTORS:
        try:
            parse(part(spec, "resourceAttributes", name).get("rawSelector", ""))
        except ApiError:
            ignored.append(f"{_ATTRIBUTES}.{name} ignored due to parse error")
    return ignored


def _access_problems(kind: Kind, metadata: JsonObject, spec: JsonObject) -> list[Problem]:
    problems: list[Problem] = []
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None and path is not None:
        detail = "cannot be specified in combination with resourceAttributes"
        problems.append(invalid_value("spec.nonResourceAttributes", _go_names(path), detail))
    if resource is None and path is None:
        detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        problems.append(invalid_value(_ATTRIBUTES, None, detail))
    is_own = kind.kind == "SelfSubjectAccessReview"
    if not is_own and not spec.get("user") and not spec.get("groups"):
        detail = "at least one of user or group must be specified"
        problems.append(invalid_value("spec.user", "", detail))
    for name, _ in _SELECTORS:
        selector = part(spec, "resourceAttributes").get(name)
        problems += _selector_problems(selector, f"{_ATTRIBUTES}.{name}")
    namespace = metadata.get("namespace", "") if kind.namespaced else ""
    if set(metadata) - {"managedFields", *(["namespace"] if kind.namespaced else [])}:
        detail = "must be empty" + (" except for namespace" if kind.namespaced else "")
        problems.append(invalid_value("metadata", metadata, detail))
    if kind.namespaced and resource is not None and resource.get("namespace", "") != namespace:
        detail = "must match metadata.namespace"
        asked = resource.get("namespace", "")
        problems.append(invalid_value(f"{_ATTRIBUTES}.namespace", asked, detail))
    if kind.namespaced and path is not None:
        detail = "disallowed on this kind of request"
        problems.append(invalid_value("spec.nonResourceAttributes", _go_names(path), detail))
    return problems


def _selector_problems(selector: JsonObject | None, path: str) -> list[Problem]:
    if selector is None:
        return []
    raw, requirements = selector.get("rawSelector", ""), selector.get("requirements")
    if raw and requirements:
        detail = "may not specified at the same time as requirements"
        return [invalid_value(f"{path}.rawSelector", raw, detail)]
    if not raw and not requirements:
        detail = f"when {path} is specified, requirements or rawSelector is required"
        return [required(f"{path}.requirements", detail)]
    return []


def _go_names(attributes: JsonObject) -> JsonObject:
    """As Go shows a struct without JSON names."""
    return {"Path": attributes.get("path", ""), "Verb": attributes.get("verb", "")}


def _resource_rule(rule: Rule) -> JsonObject:
    shown: JsonObject = {
        "verbs": rule.verbs,
        "apiGroups": rule.api_groups,
        "resources": rule.resources,
        "resourceNames": rule.resource_names,
    }
    return {key: value for key, value in shown.items() if value}
