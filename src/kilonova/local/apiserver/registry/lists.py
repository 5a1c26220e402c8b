"""Reads: one object, or a list at the current or at an earlier resourceVersion."""

import base64
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

import msgspec

from kilonova.local.apimachinery.errors import ApiError, bad_request, expired
from kilonova.local.apiserver.endpoints.resource_target import ResourceTarget
from kilonova.local.apiserver.registry.context import RegistryContext
from kilonova.local.apiserver.registry.options import ListOptions
from kilonova.local.apiserver.registry.selection import EntrySelector, entry_selector
from kilonova.local.apiserver.storage import Collection, Entry, RevisionCompacted

_TOO_OLD = "The resourceVersion for the provided list is too old."
_CONTINUE_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. "
    "You can start a new list without the continue parameter, or use the continue token in "
    "this response to retrieve the remainder of the results. Continuing with the provided "
    "token results in an inconsistent list - objects that were created, modified, or deleted "
    "between the time the first chunk was returned and now may show up in the list."
)


@dataclass(frozen=True, slots=True)
class ListPage:
    """A list, or a page of one."""

    entries: list[Entry]
    rv: int
    continue_token: str = ""
    remaining: int | None = None


class _ContinueToken(msgspec.Struct):
    v: str = ""
    rv: int = 0
    start: str = ""


def list_entries(
    registry: RegistryContext, target: ResourceTarget, options: ListOptions
) -> ListPage:
    """The entries that the options select, in order, up to their limit."""
    selector = entry_selector(target, options)
    collection = registry.collection(target)
    limit = options.limit
    after, rv = "", registry.store.revision
    entries: Iterable[Entry]
    if options.continue_token:
        if options.resource_version not in ("", "0"):
            raise bad_request("specifying resource version is not allowed when using continue")
        after, requested = _decode_continue_token(options.continue_token)
        rv = requested if requested > 0 else rv
        entries = _entries_at_version(
            collection, selector, after, rv, _CONTINUE_TOO_OLD, registry.store.revision
        )
    else:
        try:
            requested = check_resource_version(options.resource_version, registry.store.revision)
        except InvalidResourceVersion as error:
            raise bad_request(f"invalid resource version: {error.message}") from error
        # Without resourceVersionMatch a limit implies Exact, as for old clients in Kubernetes.
        if options.resource_version_match == "Exact" or (
            limit and requested > 0 and not options.resource_version_match
        ):
            rv = requested
            entries = _entries_at_version(
                collection, selector, "", rv, _TOO_OLD, registry.store.revision
            )
        else:
            entries = _current_entries(collection, selector, "")
    if not selector.is_everything:
        entries = filter(selector.matches, entries)
    if not limit:
        return ListPage(list(entries), rv)
    page = list(islice(entries, min(limit, sys.maxsize - 1) + 1))
    if len(page) <= limit:
        return ListPage(page, rv)
    page.pop()
    last = page[-1].key
    remaining = (
        _count_at_version(collection, selector, last, rv) if selector.is_everything else None
    )
    return ListPage(page, rv, _encode_continue_token(last, rv), remaining)


def all_entries(collection: Collection, selector: EntrySelector) -> Iterator[Entry]:
    """The current entries of a selection, in order."""
    entries = _current_entries(collection, selector, "")
    return entries if selector.is_everything else filter(selector.matches, entries)


class InvalidResourceVersion(ApiError):
    """A resourceVersion that is not a number: Kubernetes reports an internal error."""


def check_resource_version(text: str, current: int) -> int:
    """A requested resourceVersion, which must not be newer than the current one."""
    requested = parse_resource_version(text)
    if requested > current:
        raise version_too_large_error(requested, current)
    return requested


def parse_resource_version(text: str) -> int:
    """A requested resourceVersion as a number; 0 if absent."""
    try:
        value = int(text or "0")
        if value < 0:
            raise ValueError
    except ValueError:
        problem = f'Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
        raise InvalidResourceVersion(500, "", f"resourceVersion: {problem}") from None
    return value


def version_too_large_error(requested: int, current: int) -> ApiError:
    """The error for a resourceVersion that does not exist yet."""
    message = f"Too large resource version: {requested}, current: {current}"
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    details = {"causes": [cause], "retryAfterSeconds": 1}
    return ApiError(504, "Timeout", f"Timeout: {message}", details, {"Retry-After": "1"})


def _current_entries(
    collection: Collection, selector: EntrySelector, after: str
) -> Iterator[Entry]:
    if selector.name and selector.namespace:
        found = collection.get(f"{selector.namespace}/{selector.name}")
        return iter((found,) if found is not None and found.key > after else ())
    if selector.indexed_field and not after:
        return collection.entries_by_field(*selector.indexed_field)
    return collection.range_entries(selector.namespace, after)


def _entries_at_version(
    collection: Collection, selector: EntrySelector, after: str, rv: int, too_old: str, current: int
) -> Iterator[Entry]:
    """The entries at `rv`: the current ones, with all changes since then reverted."""
    if rv == current:
        return _current_entries(collection, selector, after)
    try:
        changes = collection.changes_since_revision(rv)
    except RevisionCompacted:
        error = expired(too_old)
        if after:
            error.metadata = {"continue": _encode_continue_token(after, -1)}
        raise error from None
    if not changes:
        return _current_entries(collection, selector, after)
    prefix = f"{selector.namespace}/" if selector.namespace else ""
    unchanged = (
        entry
        for entry in collection.range_entries(selector.namespace, after)
        if entry.key not in changes
    )
    restored = (
        entry
        for key, entry in changes.items()
        if entry is not None and key > after and key.startswith(prefix)
    )
    return iter(sorted([*unchanged, *restored], key=lambda entry: entry.key))


def _count_at_version(collection: Collection, selector: EntrySelector, after: str, rv: int) -> int:
    """The number of entries after a key at `rv`, which must be in the watch cache."""
    count = collection.count_after(selector.namespace, after)
    prefix = f"{selector.namespace}/" if selector.namespace else ""
    for key, previous in collection.changes_since_revision(rv).items():
        if key > after and key.startswith(prefix):
            count += (previous is not None) - (collection.get(key) is not None)
    return count


def _encode_continue_token(last_key: str, rv: int) -> str:
    token = {"v": "meta.k8s.io/v1", "rv": rv, "start": f"{last_key}\0"}
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).rstrip(b"=").decode()


def _decode_continue_token(text: str) -> tuple[str, int]:
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        token = msgspec.json.decode(raw, type=_ContinueToken)
    except (ValueError, msgspec.MsgspecError):
        raise bad_request("invalid continue token: continue key is not valid") from None
    if token.v != "meta.k8s.io/v1" or token.rv == 0 or not token.start:
        raise bad_request("invalid continue token: continue key is not valid")
    return token.start.removesuffix("\0"), token.rv
