"""SelfSubjectReview, TokenReview and access reviews: requests that are answered and never
stored."""

from collections.abc import Callable

from kilonova.api.json import JsonObject
from kilonova.api.times import format_rfc3339
from kilonova.local.apimachinery.errors import (
    ApiError,
    FieldError,
    bad_request,
    invalid,
    invalid_value,
    required_value,
)
from kilonova.local.apimachinery.selectors import parse_field_selector, parse_label_selector
from kilonova.local.apimachinery.unstructured import nested_object
from kilonova.local.apiserver.auth import (
    Authenticator,
    AuthorizationAttributes,
    InvalidToken,
    User,
    user_info,
)
from kilonova.local.apiserver.auth.rbac import PolicyRule, RbacAuthorizer, missing_roles_message
from kilonova.local.apiserver.endpoints.resource_target import ResourceTarget
from kilonova.local.apiserver.kinds.kind import Kind
from kilonova.local.clock import Clock

_ATTRIBUTES = "spec.resourceAttributes"
_SELECTOR_PARSERS: tuple[tuple[str, Callable[[str], object]], ...] = (
    ("fieldSelector", parse_field_selector),
    ("labelSelector", parse_label_selector),
)


class AccessReviews:
    """Answers SelfSubjectReview, TokenReview and the access reviews."""

    def __init__(self, authenticator: Authenticator, rbac: RbacAuthorizer, clock: Clock) -> None:
        self._authenticator = authenticator
        self._rbac = rbac
        self._clock = clock

    def handles(self, kind: Kind) -> bool:
        return kind.group in ("authentication.k8s.io", "authorization.k8s.io")

    def review(self, target: ResourceTarget, review: JsonObject, user: User) -> JsonObject:
        """The review with its status."""
        kind = target.kind
        metadata: JsonObject = review.get("metadata") or {}
        if kind.namespaced:
            metadata.setdefault("namespace", target.namespace)
        spec = nested_object(review, "spec")
        answered: JsonObject = {
            "kind": kind.kind,
            "apiVersion": kind.api_version,
            "metadata": metadata,
        }
        match kind.kind:
            case "SelfSubjectReview":
                metadata["creationTimestamp"] = format_rfc3339(self._clock.now())
                return {**answered, "status": {"userInfo": user_info(user)}}
            case "SelfSubjectRulesReview":
                return {**answered, "spec": {}, "status": self._review_rules(spec, user)}
            case "TokenReview":
                status = self._review_token(spec)
            case _:
                status = self._review_access(kind, metadata, spec, user)
        return {**answered, "spec": spec, "status": status}

    def _review_token(self, spec: JsonObject) -> JsonObject:
        try:
            user, audiences = self._authenticator.review_token(
                spec.get("token", ""), spec.get("audiences") or ()
            )
        except InvalidToken as error:
            # Kubernetes reports the error of each of its token authenticators, one of which is
            # this.
            known, message = "invalid bearer token", str(error)
            return {"user": {}, "error": message if message == known else f"[{known}, {message}]"}
        return {"authenticated": True, "user": user_info(user), "audiences": list(audiences)}

    def _review_rules(self, spec: JsonObject, user: User) -> JsonObject:
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
            status["evaluationError"] = missing_roles_message(broken)
        return status

    def _review_access(
        self, kind: Kind, metadata: JsonObject, spec: JsonObject, user: User
    ) -> JsonObject:
        if problems := _validate_access(kind, metadata, spec):
            raise invalid(kind.group, "", "", problems)
        if kind.kind != "SelfSubjectAccessReview":
            user = User(spec.get("user", ""), spec.get("uid", ""), tuple(spec.get("groups") or ()))
        verdict = self._rbac.authorize(user, _attributes_from_spec(spec))
        status: JsonObject = {"allowed": verdict.allowed}
        if verdict.reason:
            status["reason"] = verdict.reason
        if ignored := _unparsable_selectors(spec):
            status["evaluationError"] = "; ".join(ignored)
        return status


def _attributes_from_spec(spec: JsonObject) -> AuthorizationAttributes:
    if path := spec.get("nonResourceAttributes"):
        return AuthorizationAttributes(path.get("verb", ""), path=path.get("path", ""))
    attributes = nested_object(spec, "resourceAttributes")
    return AuthorizationAttributes(
        attributes.get("verb", ""),
        attributes.get("group", ""),
        attributes.get("version", ""),
        attributes.get("resource", ""),
        attributes.get("subresource", ""),
        attributes.get("namespace", ""),
        attributes.get("name", ""),
    )


def _unparsable_selectors(spec: JsonObject) -> list[str]:
    """Selectors that cannot be parsed: the review ignores them."""
    ignored: list[str] = []
    for name, parse in _SELECTOR_PARSERS:
        try:
            parse(nested_object(spec, "resourceAttributes", name).get("rawSelector", ""))
        except ApiError:
            ignored.append(f"{_ATTRIBUTES}.{name} ignored due to parse error")
    return ignored


def _validate_access(kind: Kind, metadata: JsonObject, spec: JsonObject) -> list[FieldError]:
    problems: list[FieldError] = []
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None and path is not None:
        detail = "cannot be specified in combination with resourceAttributes"
        problems.append(invalid_value("spec.nonResourceAttributes", _go_field_names(path), detail))
    if resource is None and path is None:
        detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        problems.append(invalid_value(_ATTRIBUTES, None, detail))
    is_own = kind.kind == "SelfSubjectAccessReview"
    if not is_own and not spec.get("user") and not spec.get("groups"):
        detail = "at least one of user or group must be specified"
        problems.append(invalid_value("spec.user", "", detail))
    for name, _ in _SELECTOR_PARSERS:
        selector = nested_object(spec, "resourceAttributes").get(name)
        problems += _validate_selector(selector, f"{_ATTRIBUTES}.{name}")
    namespace = metadata.get("namespace", "") if kind.namespaced else ""
    if set(metadata) - {"managedFields", *(["namespace"] if kind.namespaced else [])}:
        detail = "must be empty" + (" except for namespace" if kind.namespaced else "")
        problems.append(invalid_value("metadata", metadata, detail))
    if kind.namespaced and resource is not None and resource.get("namespace", "") != namespace:
        detail = "must match metadata.namespace"
        namespace = resource.get("namespace", "")
        problems.append(invalid_value(f"{_ATTRIBUTES}.namespace", namespace, detail))
    if kind.namespaced and path is not None:
        detail = "disallowed on this kind of request"
        problems.append(invalid_value("spec.nonResourceAttributes", _go_field_names(path), detail))
    return problems


def _validate_selector(selector: JsonObject | None, path: str) -> list[FieldError]:
    if selector is None:
        return []
    raw, requirements = selector.get("rawSelector", ""), selector.get("requirements")
    if raw and requirements:
        detail = "may not specified at the same time as requirements"
        return [invalid_value(f"{path}.rawSelector", raw, detail)]
    if not raw and not requirements:
        detail = f"when {path} is specified, requirements or rawSelector is required"
        return [required_value(f"{path}.requirements", detail)]
    return []


def _go_field_names(attributes: JsonObject) -> JsonObject:
    """The attributes with Go's field names, as Go prints a struct."""
    return {"Path": attributes.get("path", ""), "Verb": attributes.get("verb", "")}


def _resource_rule(rule: PolicyRule) -> JsonObject:
    fields: JsonObject = {
        "verbs": rule.verbs,
        "apiGroups": rule.api_groups,
        "resources": rule.resources,
        "resourceNames": rule.resource_names,
    }
    return {key: value for key, value in fields.items() if value}
