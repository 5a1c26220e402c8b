"""Roles and bindings as they are stored, found by whom they concern."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgspec

from kilonova.local.auth.rbac.rules import Rule
from kilonova.local.auth.user import User
from kilonova.local.auth.words import quoted
from kilonova.local.storage import Entry, Event, EventType, Store

GROUP = "rbac.authorization.k8s.io"


class RoleRef(msgspec.Struct, frozen=True):
    """The role that a binding gives."""

    kind: str
    name: str


class Subject(msgspec.Struct, frozen=True):
    """Whom a binding gives a role to."""

    kind: str
    name: str
    namespace: str = ""

    def key(self, namespace: str) -> str:
        """Under which name `keys_of` a user finds it; a ServiceAccount is a user of its name."""
        if self.kind != "ServiceAccount":
            return f"{self.kind} {self.name}"
        return f"User system:serviceaccount:{self.namespace or namespace}:{self.name}"

    def description(self, namespace: str) -> str:
        where = f"/{self.namespace or namespace}" if self.kind == "ServiceAccount" else ""
        return f"{self.kind} {quoted(self.name + where)}"


@dataclass(frozen=True, slots=True)
class Binding:
    """A RoleBinding, or without a namespace a ClusterRoleBinding."""

    namespace: str
    name: str
    role: RoleRef
    subjects: tuple[Subject, ...]

    def described(self, keys: set[str]) -> str:
        """How the reason of a verdict names it, for somebody who has one of these keys."""
        subject = next(each for each in self.subjects if each.key(self.namespace) in keys)
        kind = "RoleBinding" if self.namespace else "ClusterRoleBinding"
        name = f"{self.name}/{self.namespace}" if self.namespace else self.name
        return (
            f"{kind} {quoted(name)} of {self.role.kind} {quoted(self.role.name)} "
            f"to {subject.description(self.namespace)}"
        )


def keys_of(user: User) -> set[str]:
    """The keys of the subjects that mean this user."""
    return {f"User {user.name}", *(f"Group {group}" for group in user.groups)}


class _StoredRole(msgspec.Struct):
    rules: tuple[Rule, ...] | None = None


class _StoredBinding(msgspec.Struct, rename="camel"):
    role_ref: RoleRef
    subjects: tuple[Subject, ...] | None = None


_decode_role = msgspec.json.Decoder(_StoredRole).decode
_decode_binding = msgspec.json.Decoder(_StoredBinding).decode


class Policy:
    """All roles and bindings. `on_change` is called after each change of one."""

    def __init__(self) -> None:
        self.on_change: Callable[[], None] = lambda: None
        self._roles: dict[tuple[str, str], tuple[Rule, ...]] = {}
        self._bindings: dict[tuple[str, str], Binding] = {}
        self._by_subject: dict[tuple[str, str], dict[str, Binding]] = {}

    @classmethod
    def observing(cls, store: Store) -> "Policy":
        """The policy that the store has, now and from now on."""
        policy = cls()
        for plural in ("roles", "clusterroles", "rolebindings", "clusterrolebindings"):
            resource = f"{plural}.{GROUP}"
            keep = policy.keep_binding if plural.endswith("bindings") else policy.keep_role
            for entry in store.collection(resource).between(""):
                keep(entry.key, entry.body)

            def changed(event: Event, keep: Callable[[str, bytes | None], None] = keep) -> None:
                entry: Entry = event.entry
                keep(entry.key, None if event.type is EventType.DELETED else entry.body)

            store.observe(resource, changed)
        return policy

    def keep_role(self, key: str, body: bytes | None) -> None:
        """Know a role as it is stored (`namespace/name`, or `name` of a cluster's); None: gone."""
        if body is None:
            self._roles.pop(_split(key), None)
        else:
            self._roles[_split(key)] = _decode_role(body).rules or ()
        self.on_change()

    def keep_binding(self, key: str, body: bytes | None) -> None:
        """Likewise a binding."""
        namespace, name = _split(key)
        old = self._bindings.pop((namespace, name), None)
        if old is not None:
            for subject in old.subjects:
                found = self._by_subject.get((namespace, subject.key(namespace)))
                if found is not None:
                    found.pop(name, None)
        if body is not None:
            stored = _decode_binding(body)
            binding = Binding(namespace, name, stored.role_ref, stored.subjects or ())
            self._bindings[namespace, name] = binding
            for subject in binding.subjects:
                key = subject.key(namespace)
                self._by_subject.setdefault((namespace, key), {})[name] = binding
        self.on_change()

    def rules(self, role: RoleRef, namespace: str) -> tuple[Rule, ...] | None:
        """What a role allows that a binding of this namespace names; None if there is none."""
        return self._roles.get((namespace if role.kind == "Role" else "", role.name))

    def bindings(self, user: User, namespace: str) -> Iterator[Binding]:
        """What concerns a user: of the whole cluster first, then of the namespace, by name."""
        keys = keys_of(user)
        for place in dict.fromkeys(("", namespace)):
            found: dict[str, Binding] = {}
            for key in keys:
                found.update(self._by_subject.get((place, key), {}))
            for name in sorted(found):
                yield found[name]


def _split(key: str) -> tuple[str, str]:
    namespace, slash, name = key.partition("/")
    return (namespace, name) if slash else ("", namespace)
