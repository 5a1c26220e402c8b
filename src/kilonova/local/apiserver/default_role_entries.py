"""The default roles and bindings of a new store, written without requests.

Nothing in a new store can change or reject them: the result of creating a default object differs
between clusters in uid, time and resourceVersion alone. The rest is encoded once in a process.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from kilonova.api.json import JsonObject
from kilonova.api.times import format_rfc3339
from kilonova.local.apiserver.auth.rbac.default_roles import default_objects
from kilonova.local.apiserver.field_manager import record_update
from kilonova.local.apiserver.kinds.kind import Kind
from kilonova.local.apiserver.registry.context import RegistryContext
from kilonova.local.apiserver.registry.encoding import encode_entry, object_key
from kilonova.local.apiserver.registry.object_lifecycle import initialize_metadata
from kilonova.local.apiserver.schema.checker import schema_checker
from kilonova.local.apiserver.storage import Entry, PutEntry

_MANAGER = "apiserver"
_GROUP, _VERSION = "rbac.authorization.k8s.io", "v1"
_UID, _TIME = "@uid@", "@time@"


async def store_default_roles(registry: RegistryContext) -> None:
    """Store the default roles and bindings, with one commit for each kind.

    Only for a store without any object of these kinds, and with the namespaces of the roles.
    """
    now = format_rfc3339(registry.clock.now())
    for plural, templates in _find_templates(registry.served_kinds.find).items():
        uids = [registry.id_generator.uid() for _ in templates]
        await registry.store.write_all(
            f"{plural}.{_GROUP}",
            [
                (template.key, partial(template.insert, uid, now))
                for template, uid in zip(templates, uids, strict=True)
            ],
        )


@dataclass(frozen=True, slots=True)
class _EntryTemplate:
    """An entry without what differs between clusters; its parts are shared by all of them."""

    key: str
    body: bytes
    """A format, of uid, time and resourceVersion."""
    labels: Mapping[str, str]
    fields: tuple[str, ...] | None

    def insert(self, uid: str, now: str, current: Entry | None, rv: int) -> PutEntry:
        """The new entry: an update function, after its first two parameters."""
        assert current is None
        body = self.body % {b"uid": uid.encode(), b"time": now.encode(), b"rv": rv}
        return PutEntry(Entry(self.key, rv, body, uid, self.labels, self.fields))


_templates: dict[str, list[_EntryTemplate]] = {}
"""By plural name, in the order of their creation."""


def _find_templates(
    find_kind: Callable[[str, str, str], Kind | None],
) -> Mapping[str, list[_EntryTemplate]]:
    if not _templates:
        for plural, objects in default_objects().items():
            kind = find_kind(_GROUP, _VERSION, plural)
            assert kind is not None
            _templates[plural] = [_make_template(kind, obj) for obj in objects]
    return _templates


def _make_template(kind: Kind, obj: JsonObject) -> _EntryTemplate:
    """What a create of this object stores; see `registry.writes` for the order of its steps."""
    unknown = schema_checker(kind.schema).conform(obj, kind.kind, kind.version)
    assert not unknown
    kind.strategy.default(obj)
    record_update(
        None, obj, kind.schema, manager=_MANAGER, api_version=kind.api_version, time=_TIME
    )
    initialize_metadata(kind, obj, _UID, _TIME)
    kind.strategy.prepare_create(obj)
    metadata = obj["metadata"]
    key = object_key(metadata.get("namespace", ""), metadata["name"])
    entry = encode_entry(kind, key, 0, obj)
    body = entry.body.replace(b"%", b"%%")
    for placeholder, value in (
        (_UID.encode(), b"%(uid)s"),
        (_TIME.encode(), b"%(time)s"),
        (b'"resourceVersion":"0"', b'"resourceVersion":"%(rv)d"'),
    ):
        assert placeholder in body
        body = body.replace(placeholder, value)
    return _EntryTemplate(key, body, entry.labels, entry.fields)
