"""Reading: one object, or a list of them, at the present or at a version that is still known."""

import base64
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

import msgspec

from kilonova.kube.transport import Request
from kilonova.local.errors import (
    ApiError,
    Problem,
    bad_request,
    expired,
    forbidden_field,
    invalid,
    not_supported,
)
from kilonova.local.registry.core import Registry
from kilonova.local.registry.selection import Selection, selection
from kilonova.local.routes import Target
from kilonova.local.storage import Collection, Entry, WindowExceeded

_TOO_OLD = "The resourceVersion for the provided list is too old."
_CONTINUE_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. "
    "You can start a new list without the continue parameter, or use the continue token in "
    "this response to retrieve the remainder of the results. Continuing with the provided "
    "token results in an inconsistent list - objects that were created, modified, or deleted "
    "between the time the first chunk was returned and now may show up in the list."
)


@dataclass(frozen=True, slots=True)
class Page:
    """A list, or part of one."""

    entries: list[Entry]
    rv: int
    continue_token: str = ""
    remaining: int | None = None


class _Token(msgspec.Struct):
    v: str = ""
    rv: int = 0
    start: str = ""


def read_list(registry: Registry, target: Target, request: Request) -> Page:
    """The entries that the request selects, in order, as far as its limit."""
    _check_list_options(request)
    chosen = selection(target, request)
    collection = registry.collection(target)
    limit = _limit(request)
    after, rv = "", registry.store.rv
    entries: Iterable[Entry]
    token = request.param("continue")
    if token:
        if request.param("resourceVersion") not in (None, "", "0"):
            raise bad_request("specifying resource version is not allowed when using continue")
        after, asked = _read_token(token)
        rv = asked if asked > 0 else rv
        entries = _at(collection, chosen, after, rv, _CONTINUE_TOO_OLD, registry.store.rv)
    else:
        try:
            asked = check_version_asked(request, registry.store.rv)
        except BadVersion as error:
            raise bad_request(f"invalid resource version: {error.message}") from error
        if request.param("resourceVersionMatch") == "Exact" or (
            limit and asked > 0 and _plain(request)
        ):
            rv = asked
            entries = _at(collection, chosen, "", rv, _TOO_OLD, registry.store.rv)
        else:
            entries = _present(collection, chosen, "")
    if not chosen.is_everything:
        entries = filter(chosen.holds, entries)
    if not limit:
        return Page(list(entries), rv)
    page = list(islice(entries, min(limit, sys.maxsize - 1) + 1))
    if len(page) <= limit:
        return Page(page, rv)
    page.pop()
    last = page[-1].key
    remaining = _count_at(collection, chosen, last, rv) if chosen.is_everything else None
    return Page(page, rv, _make_token(last, rv), remaining)


def read_everything(collection: Collection, chosen: Selection) -> Iterator[Entry]:
    """The present entries of a selection, in order."""
    entries = _present(collection, chosen, "")
    return entries if chosen.is_everything else filter(chosen.holds, entries)


class BadVersion(ApiError):
    """A resourceVersion that is no number: for Kubernetes, an internal error."""


def check_version_asked(request: Request, current: int) -> int:
    """The resourceVersion parameter, which must have been given out already."""
    asked = version_asked(request)
    if asked > current:
        raise too_large_version(asked, current)
    return asked


def version_asked(request: Request) -> int:
    """The resourceVersion parameter as a number; none is 0."""
    text = request.param("resourceVersion") or "0"
    try:
        value = int(text)
        if value < 0:
            raise ValueError
    except ValueError:
        problem = f'Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
        raise BadVersion(500, "", f"resourceVersion: {problem}") from None
    return value


def too_large_version(asked: int, current: int) -> ApiError:
    """A version that has not been given out yet."""
    message = f"Too large resource version: {asked}, current: {current}"
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    details = {"causes": [cause], "retryAfterSeconds": 1}
    return ApiError(504, "Timeout", f"Timeout: {message}", details, {"Retry-After": "1"})


def _plain(request: Request) -> bool:
    # An unset match with a limit means Exact, for the sake of old clients.
    return request.param("resourceVersionMatch") is None


def _present(collection: Collection, chosen: Selection, after: str) -> Iterator[Entry]:
    if chosen.name and chosen.namespace:
        found = collection.get(f"{chosen.namespace}/{chosen.name}")
        return iter((found,) if found is not None and found.key > after else ())
    if chosen.by_field and not after:
        return collection.with_field(*chosen.by_field)
    return collection.between(chosen.namespace, after)


def _at(
    collection: Collection, chosen: Selection, after: str, rv: int, too_old: str, current: int
) -> Iterator[Entry]:
    """Entries as they were at `rv`: those of now, but for what changed since."""
    if rv == current:
        return _present(collection, chosen, after)
    try:
        then = collection.as_of(rv)
    except WindowExceeded:
        error = expired(too_old)
        if after:
            error.metadata = {"continue": _make_token(after, -1)}
        raise error from None
    if not then:
        return _present(collection, chosen, after)
    prefix = f"{chosen.namespace}/" if chosen.namespace else ""
    unchanged = (
        entry for entry in collection.between(chosen.namespace, after) if entry.key not in then
    )
    restored = (
        entry
        for key, entry in then.items()
        if entry is not None and key > after and key.startswith(prefix)
    )
    return iter(sorted([*unchanged, *restored], key=lambda entry: entry.key))


def _count_at(collection: Collection, chosen: Selection, after: str, rv: int) -> int:
    """How many entries there were past a key at `rv`, which the window still knows."""
    count = collection.count_after(chosen.namespace, after)
    prefix = f"{chosen.namespace}/" if chosen.namespace else ""
    for key, then in collection.as_of(rv).items():
        if key > after and key.startswith(prefix):
            count += (then is not None) - (collection.get(key) is not None)
    return count


def _limit(request: Request) -> int:
    text = request.param("limit") or "0"
    try:
        return max(0, int(text))
    except ValueError:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None


def _make_token(last_key: str, rv: int) -> str:
    token = {"v": "meta.k8s.io/v1", "rv": rv, "start": f"{last_key}\0"}
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).rstrip(b"=").decode()


def _read_token(text: str) -> tuple[str, int]:
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        token = msgspec.json.decode(raw, type=_Token)
    except (ValueError, msgspec.MsgspecError):
        raise bad_request("invalid continue token: continue key is not valid") from None
    if token.v != "meta.k8s.io/v1" or token.rv == 0 or not token.start:
        raise bad_request("invalid continue token: continue key is not valid")
    return token.start.removesuffix("\0"), token.rv


def _check_list_options(request: Request) -> None:
    match = request.param("resourceVersionMatch")
    version = request.param("resourceVersion")
    problems: list[Problem] = []
    path = "resourceVersionMatch"
    if match:
        if not version:
            problems.append(
                forbidden_field(path, f"{path} is forbidden unless resourceVersion is provided")
            )
        if request.param("continue"):
            problems.append(forbidden_field(path, f"{path} is forbidden when continue is provided"))
        if match not in ("Exact", "NotOlderThan"):
            problems.append(not_supported(path, match, ["Exact", "NotOlderThan", ""]))
        if match == "Exact" and version == "0":
            problems.append(
                forbidden_field(path, f'{path} "exact" is forbidden for resourceVersion "0"')
            )
    if request.param("sendInitialEvents") is not None:
        problems.append(
            forbidden_field("sendInitialEvents", "sendInitialEvents is forbidden for list")
        )
    if problems:
        raise invalid("meta.k8s.io", "ListOptions", "", problems)
