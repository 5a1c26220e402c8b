"""The objects of a resource as last seen, with indexes, and handlers told of each change.

Written by one reflector, read by anyone, all in one event loop. No method awaits, so that a
reader between two awaits of its own sees one consistent state. Objects are shared: readers
must not change them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from typing import Generic, TypeAlias, TypeVar

from kilonova.kube.identity import Key, identity_of

T = TypeVar("T")

IndexValues: TypeAlias = Callable[[T], Iterable[Hashable]]
"""The values under which an object is found in an index; none leaves it out."""

Handler: TypeAlias = Callable[[T | None, T | None], None]
"""Called with (old, new): (None, new) on arrival, (old, None) on departure.

`old` is always the very object that the handler last got as `new`. The store already shows
the new state. A handler must be quick and must not raise; where it does, see `Store.contain`.
"""

HandlerFailed: TypeAlias = Callable[[T | None, T | None, Exception], None]
"""Called while the error of a handler is being handled, with what the handler was called with."""


class Store(Generic[T]):
    """Objects by key. Views are in order of arrival, so that they are the same every time."""

    def __init__(self, type_: type[T], indexes: Mapping[str, IndexValues[T]] | None = None) -> None:
        self._objects: dict[Key, T] = {}
        self._identity = identity_of(type_)
        self._indexes: dict[str, _Index[T]] = {}
        self._handlers: tuple[Handler[T], ...] = ()
        self._handler_failed: HandlerFailed[T] | None = None
        self.synced = False
        """Whether the first complete list has been taken in and told to the handlers."""
        for name, values in (indexes or {}).items():
            self.add_index(name, values)

    def get(self, key: Key) -> T | None:
        """The object of that (namespace, name), if there is one."""
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

    def find(self, index: str, value: Hashable) -> list[T]:
        """The objects that an index holds under a value. Costs only what it returns."""
        objects = self._objects
        return [objects[key] for key in self._indexes[index].keys.get(value, ())]

    def count(self, index: str, value: Hashable) -> int:
        """How many objects an index holds under a value."""
        return len(self._indexes[index].keys.get(value, ()))

    def index_values(self, index: str) -> Collection[Hashable]:
        """A live view of the values that an index holds objects under."""
        return self._indexes[index].keys.keys()

    def key_of(self, obj: T) -> Key:
        """The (namespace, name) of an object."""
        return self._identity.key(obj)

    def version_of(self, obj: T) -> str:
        """The resourceVersion of an object."""
        return self._identity.version(obj)

    def add_index(self, name: str, values: IndexValues[T]) -> None:
        """Keep an index from now on, of the objects already here as well."""
        if name in self._indexes:
            raise ValueError(f"there is an index {name!r} already")
        index = _Index(values)
        for key, obj in self._objects.items():
            index.put(key, obj)
        self._indexes[name] = index

    def subscribe(self, handler: Handler[T]) -> Callable[[], None]:
        """Tell a handler of each change from now on; call what is returned to stop."""
        self._handlers = (*self._handlers, handler)

        def unsubscribe() -> None:
            self._handlers = tuple(other for other in self._handlers if other is not handler)

        return unsubscribe

    def contain(self, failed: HandlerFailed[T]) -> None:
        """Report errors of handlers instead of raising them: other handlers, and the objects that
        come after, are not affected."""
        self._handler_failed = failed

    def put(self, obj: T) -> None:
        """Take in an object, new or changed."""
        key = self._identity.key(obj)
        old = self._objects.get(key)
        self._objects[key] = obj
        for index in self._indexes.values():
            index.put(key, obj)
        self._notify(old, obj)

    def remove(self, key: Key) -> None:
        """Drop an object; nothing happens if it is not here."""
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
                if self._handler_failed is None:
                    raise
                self._handler_failed(old, new, error)

    def replace(self, objects: Mapping[Key, T], keep: Collection[Key] = ()) -> None:
        """Make this the whole content, telling handlers only of what differs.

        `keep` are keys whose objects exist but could not be read: what was last seen of them
        stays.
        """
        version = self._identity.version
        for key in [key for key in self._objects if key not in objects and key not in keep]:
            self.remove(key)
        for key, obj in objects.items():
            old = self._objects.get(key)
            if old is None or version(old) != version(obj):
                self.put(obj)
        self.synced = True


class _Index(Generic[T]):
    """Keys by value. Buckets are dicts for their order; empty ones are dropped."""

    __slots__ = ("_placed", "_values", "keys")

    def __init__(self, values: IndexValues[T]) -> None:
        self._values = values
        self._placed: dict[Key, tuple[Hashable, ...]] = {}
        self.keys: dict[Hashable, dict[Key, None]] = {}

    def put(self, key: Key, obj: T) -> None:
        values = tuple(self._values(obj))
        placed = self._placed.get(key, ())
        if values == placed:
            return
        for value in placed:
            if value not in values:
                self._drop(key, value)
        for value in values:
            self.keys.setdefault(value, {})[key] = None
        if values:
            self._placed[key] = values
        else:
            del self._placed[key]

    def remove(self, key: Key) -> None:
        for value in self._placed.pop(key, ()):
            self._drop(key, value)

    def _drop(self, key: Key, value: Hashable) -> None:
        bucket = self.keys.get(value)
        if bucket is None:
            return
        bucket.pop(key, None)
        if not bucket:
            del self.keys[value]
