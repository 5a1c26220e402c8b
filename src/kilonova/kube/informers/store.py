"""The last observed objects of a resource, with indexes and event handlers.

Written by one reflector, read by anyone, all in one event loop. No method awaits, so that a reader
between two awaits of its own sees one consistent state. Objects are shared: readers must not change
them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from typing import Generic, TypeAlias, TypeVar

from kilonova.kube.informers.object_keys import Key, meta_accessor

T = TypeVar("T")

IndexFunc: TypeAlias = Callable[[T], Iterable[Hashable]]
"""The index values of an object; none leaves it out of the index."""

EventHandler: TypeAlias = Callable[[T | None, T | None], None]
"""Called with (old, new): (None, new) on addition, (old, None) on deletion.

`old` is always the very object that the handler last received as `new`. The store already shows the
new state. A handler must be quick and must not raise; see `Store.contain_handler_failures`.
"""

HandlerFailureCallback: TypeAlias = Callable[[T | None, T | None, Exception], None]
"""Called while an exception of a handler is being handled, with the handler's arguments."""


class Store(Generic[T]):
    """Objects by key. Views are in insertion order, so that iteration is deterministic."""

    def __init__(self, type_: type[T], indexes: Mapping[str, IndexFunc[T]] | None = None) -> None:
        self._objects: dict[Key, T] = {}
        self._accessor = meta_accessor(type_)
        self._indexes: dict[str, _Index[T]] = {}
        self._handlers: tuple[EventHandler[T], ...] = ()
        self._on_handler_failure: HandlerFailureCallback[T] | None = None
        self.has_synced = False
        """Whether the first complete list is in the store and was passed to the handlers."""
        for name, values in (indexes or {}).items():
            self.add_index(name, values)

    def get(self, key: Key) -> T | None:
        """The object of this (namespace, name), if there is one."""
        return self._objects.get(key)

    def __contains__(self, key: Key) -> bool:
        return key in self._objects

    def __len__(self) -> int:
        return len(self._objects)

    def objects(self) -> Collection[T]:
        """A live view of all objects."""
        return self._objects.values()

    def keys(self) -> Collection[Key]:
        """A live view of all keys."""
        return self._objects.keys()

    def by_index(self, index: str, value: Hashable) -> list[T]:
        """The objects under a value of an index. Costs only what it returns."""
        objects = self._objects
        return [objects[key] for key in self._indexes[index].keys_by_value.get(value, ())]

    def count_by_index(self, index: str, value: Hashable) -> int:
        """The number of objects under a value of an index."""
        return len(self._indexes[index].keys_by_value.get(value, ()))

    def index_values(self, index: str) -> Collection[Hashable]:
        """A live view of the values of an index."""
        return self._indexes[index].keys_by_value.keys()

    def key_of(self, obj: T) -> Key:
        """The (namespace, name) of an object."""
        return self._accessor.key(obj)

    def version_of(self, obj: T) -> str:
        """The resourceVersion of an object."""
        return self._accessor.version(obj)

    def add_index(self, name: str, index_func: IndexFunc[T]) -> None:
        """Maintain an index from now on, including the objects already in the store."""
        if name in self._indexes:
            raise ValueError(f"index {name!r} exists already")
        index = _Index(index_func)
        for key, obj in self._objects.items():
            index.put(key, obj)
        self._indexes[name] = index

    def add_event_handler(self, handler: EventHandler[T]) -> Callable[[], None]:
        """Call a handler for each change from now on; call the returned function to remove it."""
        self._handlers = (*self._handlers, handler)

        def unsubscribe() -> None:
            self._handlers = tuple(other for other in self._handlers if other is not handler)

        return unsubscribe

    def contain_handler_failures(self, on_failure: HandlerFailureCallback[T]) -> None:
        """Report exceptions of handlers instead of raising them: other handlers, and later objects,
        are not affected."""
        self._on_handler_failure = on_failure

    def put(self, obj: T) -> None:
        """Add or update an object."""
        key = self._accessor.key(obj)
        old = self._objects.get(key)
        self._objects[key] = obj
        for index in self._indexes.values():
            index.put(key, obj)
        self._notify(old, obj)

    def remove(self, key: Key) -> None:
        """Remove an object, if it exists."""
        old = self._objects.pop(key, None)
        if old is None:
            return
        for index in self._indexes.values():
            index.remove(key)
        self._notify(old, None)

    def _notify(self, old: T | None, new: T | None) -> None:
        for handler in self._handlers:
            try:
                handler(old, new)
            except Exception as error:
                if self._on_handler_failure is None:
                    raise
                self._on_handler_failure(old, new, error)

    def replace(self, objects: Mapping[Key, T], keep_keys: Collection[Key] = ()) -> None:
        """Replace the whole content, calling handlers only for what differs.

        `keep_keys` are keys whose objects exist but could not be decoded: their last known state
        stays.
        """
        version = self._accessor.version
        for key in [key for key in self._objects if key not in objects and key not in keep_keys]:
            self.remove(key)
        for key, obj in objects.items():
            old = self._objects.get(key)
            if old is None or version(old) != version(obj):
                self.put(obj)
        self.has_synced = True


class _Index(Generic[T]):
    """Keys by value. Buckets are dicts for their order; empty ones are dropped."""

    __slots__ = ("_index_func", "_values_by_key", "keys_by_value")

    def __init__(self, index_func: IndexFunc[T]) -> None:
        self._index_func = index_func
        self._values_by_key: dict[Key, tuple[Hashable, ...]] = {}
        self.keys_by_value: dict[Hashable, dict[Key, None]] = {}

    def put(self, key: Key, obj: T) -> None:
        values = tuple(self._index_func(obj))
        old_values = self._values_by_key.get(key, ())
        if values == old_values:
            return
        for value in old_values:
            if value not in values:
                self._remove_key(key, value)
        for value in values:
            self.keys_by_value.setdefault(value, {})[key] = None
        if values:
            self._values_by_key[key] = values
        else:
            del self._values_by_key[key]

    def remove(self, key: Key) -> None:
        for value in self._values_by_key.pop(key, ()):
            self._remove_key(key, value)

    def _remove_key(self, key: Key, value: Hashable) -> None:
        bucket = self.keys_by_value.get(value)
        if bucket is None:
            return
        bucket.pop(key, None)
        if not bucket:
            del self.keys_by_value[value]
