"""Stored roles and bindings, indexed by subject."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgspec

from kilonova.local.apiserver.auth.go_quoting import go_quote
from kilonova.local.apiserver.auth.rbac.rules import PolicyRule
from kilonova.local.apiserver.auth.user import User
from kilonova.local.apiserver.storage import Entry, EventType, RevisionStore, StorageEvent

GROUP = "rbac.authorization.k8s.io"


class RoleRef(msgspec.Struct, frozen=True):
    """The role that a binding grants."""

    kind: str
    name: str


class Subject(msgspec.Struct, frozen=True):
    """A user, group or ServiceAccount that a binding grants a role to."""

    kind: str
    name: str
    namespace: str = ""

    def subject_key(self, namespace: str) -> str:
        """The key under which `subject_keys` of a user match it; a ServiceAccount is a user of its
        name."""
        if self.kind != "ServiceAccount":
            return f"{self.kind} {self.name}"
        return f"User system:serviceaccount:{self.namespace or namespace}:{self.name}"

    def describe(self, namespace: str) -> str:
        where = f"/{self.namespace or namespace}" if self.kind == "ServiceAccount" else ""
        return f"{self.kind} {go_quote(self.name + where)}"


@dataclass(frozen=True, slots=True)
class RoleBindingRef:
    """A RoleBinding, or without a namespace a ClusterRoleBinding."""

    namespace: str
    name: str
    role: RoleRef
    subjects: tuple[Subject, ...]

    def describe(self, keys: set[str]) -> str:
        """The description in the reason of a decision, for a user who has one of these keys."""
        subject = next(each for each in self.subjects if each.subject_key(self.namespace) in keys)
        kind = "RoleBinding" if self.namespace else "ClusterRoleBinding"
        name = f"{self.name}/{self.namespace}" if self.namespace else self.name
        return (
            f"{kind} {go_quote(name)} of {self.role.kind} {go_quote(self.role.name)} "
            f"to {subject.describe(self.namespace)}"
        )


def subject_keys(user: User) -> set[str]:
    """The keys of the subjects that match this user."""
    return {f"User {user.name}", *(f"Group {group}" for group in user.groups)}


class _StoredRole(msgspec.Struct):
    rules: tuple[PolicyRule, ...] | None = None


class _StoredBinding(msgspec.Struct, rename="camel"):
    role_ref: RoleRef
    subjects: tuple[Subject, ...] | None = None


_decode_role = msgspec.json.Decoder(_StoredRole).decode
_decode_binding = msgspec.json.Decoder(_StoredBinding).decode


class RbacPolicy:
    """All roles and bindings. `on_change` is called after each change of one."""

    def __init__(self) -> None:
        self.on_change: Callable[[], None] = lambda: None
        self._roles: dict[tuple[str, str], tuple[PolicyRule, ...]] = {}
        self._bindings: dict[tuple[str, str], RoleBindingRef] = {}
        self._by_subject: dict[tuple[str, str], dict[str, RoleBindingRef]] = {}

    @classmethod
    def from_store(cls, store: RevisionStore) -> "RbacPolicy":
        """The policy of the store, kept up to date."""
        policy = cls()
        for plural in ("roles", "clusterroles", "rolebindings", "clusterrolebindings"):
            resource = f"{plural}.{GROUP}"
            update = policy.set_binding if plural.endswith("bindings") else policy.set_role
            for entry in store.collection(resource).range_entries(""):
                update(entry.key, entry.body)

            def changed(
                event: StorageEvent, update: Callable[[str, bytes | None], None] = update
            ) -> None:
                entry: Entry = event.entry
                update(entry.key, None if event.type is EventType.DELETED else entry.body)

            store.observe(resource, changed)
        return policy

    def set_role(self, key: str, body: bytes | None) -> None:
        """Set a role as stored (`namespace/name`, or `name` of a ClusterRole); None removes it."""
        if body is None:
            self._roles.pop(_split_key(key), None)
        else:
            self._roles[_split_key(key)] = _decode_role(body).rules or ()
        self.on_change()

    def set_binding(self, key: str, body: bytes | None) -> None:
        """Set a binding, likewise."""
        namespace, name = _split_key(key)
        old = self._bindings.pop((namespace, name), None)
        if old is not None:
            for subject in old.subjects:
                found = self._by_subject.get((namespace, subject.subject_key(namespace)))
                if found is not None:
                    found.pop(name, None)
        if body is not None:
            stored = _decode_binding(body)
            binding = RoleBindingRef(namespace, name, stored.role_ref, stored.subjects or ())
            self._bindings[namespace, name] = binding
            for subject in binding.subjects:
                key = subject.subject_key(namespace)
                self._by_subject.setdefault((namespace, key), {})[name] = binding
        self.on_change()

    def role_rules(self, role: RoleRef, namespace: str) -> tuple[PolicyRule, ...] | None:
        """The rules of a role that a binding of this namespace refers to; None if it does not
        exist."""
        return self._roles.get((namespace if role.kind == "Role" else "", role.name))

    def bindings_for(self, user: User, namespace: str) -> Iterator[RoleBindingRef]:
        """The bindings of a user: cluster-wide ones first, then those of the namespace, by name."""
        keys = subject_keys(user)
        for scope in dict.fromkeys(("", namespace)):
            found: dict[str, RoleBindingRef] = {}
            for key in keys:
                found.update(self._by_subject.get((scope, key), {}))
            for name in sorted(found):
                yield found[name]


def _split_key(key: str) -> tuple[str, str]:
    namespace, slash, name = key.partition("/")
    return (namespace, name) if slash else ("", namespace)
