"""Parses the options of a request, from its query and the body of a delete.

Of a repeated parameter the first counts. Raises 400 for a value that cannot be parsed, 422 for one
that is not allowed, with Kubernetes' messages.
"""

from functools import lru_cache
from random import Random

import msgspec

from kilonova.kube.client.transport import Query, Request
from kilonova.local.apimachinery.errors import (
    ApiError,
    FieldError,
    bad_request,
    forbidden_value,
    invalid,
    invalid_value,
    not_supported_value,
)
from kilonova.local.apimachinery.selectors import (
    FieldSelector,
    LabelSelector,
    parse_field_selector,
    parse_label_selector,
)
from kilonova.local.apiserver.auth import User
from kilonova.local.apiserver.endpoints.negotiation import decode_body
from kilonova.local.apiserver.registry.options import (
    NO_PRECONDITIONS,
    DeleteOptions,
    FieldValidation,
    GetOptions,
    ListOptions,
    Preconditions,
    PropagationPolicy,
    ResourceVersionMatch,
    WatchOptions,
    WriteOptions,
)

_GROUP = "meta.k8s.io"
_MAX_MANAGER_LENGTH = 128
_DEFAULT_WATCH_SECONDS = (1800, 3600)
_FIELD_VALIDATIONS: dict[str, FieldValidation] = {
    "Strict": "Strict",
    "Warn": "Warn",
    "Ignore": "Ignore",
}
_PROPAGATION_POLICIES: dict[str, PropagationPolicy] = {
    "Foreground": "Foreground",
    "Background": "Background",
    "Orphan": "Orphan",
}
_VERSION_MATCHES: dict[str, ResourceVersionMatch] = {
    "": "",
    "Exact": "Exact",
    "NotOlderThan": "NotOlderThan",
}
_NO_GET_OPTIONS = GetOptions()
_NO_LIST_OPTIONS = ListOptions()

Parameters = dict[str, str]


def parse_get_options(query: Query) -> GetOptions:
    """The options of a get."""
    if not query:
        return _NO_GET_OPTIONS
    return GetOptions(_first_values(query).get("resourceVersion", ""))


def parse_list_options(query: Query) -> ListOptions:
    """The options of a list; rejects what Kubernetes rejects."""
    if not query:
        return _NO_LIST_OPTIONS
    parameters = _first_values(query)
    match = _parse_version_match(parameters)
    labels, fields = _parse_selectors(parameters)
    return ListOptions(
        labels,
        fields,
        parameters.get("resourceVersion", ""),
        match,
        max(0, _parse_integer(parameters.get("limit") or "0")),
        parameters.get("continue", ""),
    )


def parse_selectors(query: Query) -> ListOptions:
    """The selectors of a list alone, for resources that are not stored."""
    return ListOptions(*_parse_selectors(_first_values(query)))


def parse_watch_options(query: Query, random: Random) -> WatchOptions:
    """The options of a watch, with a random timeout by default; rejects what Kubernetes rejects."""
    parameters = _first_values(query)
    _check_watch_options(parameters)
    labels, fields = _parse_selectors(parameters)
    sends = parameters.get("sendInitialEvents")
    seconds = _parse_integer(parameters.get("timeoutSeconds", "0"))
    return WatchOptions(
        float(seconds) if seconds > 0 else random.uniform(*_DEFAULT_WATCH_SECONDS),
        labels,
        fields,
        parameters.get("resourceVersion", ""),
        None if sends is None else _is_true(sends),
        _is_true(parameters.get("allowWatchBookmarks", "")),
    )


def parse_write_options(request: Request, user: User, options_kind: str) -> WriteOptions:
    """The options of a write; `options_kind` is CreateOptions, UpdateOptions, PatchOptions or
    DeleteOptions."""
    parameters = _first_values(request.query)
    problems: list[FieldError] = []
    dry_runs: list[str] = []
    if "dryRun" in parameters:
        dry_runs = [value for name, value in request.query if name == "dryRun" and value]
        if any(value != "All" for value in dry_runs):
            problems.append(not_supported_value("dryRun", dry_runs, ["All"]))
    validation = parameters.get("fieldValidation", "")
    if validation and validation not in _FIELD_VALIDATIONS:
        problems.append(
            not_supported_value("fieldValidation", validation, ["", "Ignore", "Strict", "Warn"])
        )
    manager = parameters.get("fieldManager", "")
    problems.extend(_validate_field_manager(manager))
    if problems:
        raise invalid(_GROUP, options_kind, "", problems)
    force = parameters.get("force")
    return WriteOptions(
        user,
        manager or default_field_manager(request.headers.get("user-agent", "")),
        manager,
        _FIELD_VALIDATIONS.get(validation),
        dry_run=bool(dry_runs),
        force=None if force is None else force in ("true", "1", "True", "t"),
        verb="patch" if options_kind == "PatchOptions" else "update",
    )


def check_patch_options(options: WriteOptions, *, is_apply: bool) -> None:
    """Server-side apply requires a field manager; `force` is for server-side apply only."""
    problem: FieldError | None = None
    if is_apply and not options.field_manager:
        problem = FieldError(
            "fieldManager", "FieldValueRequired", "Required value: is required for apply patch"
        )
    elif not is_apply and options.force is not None:
        problem = forbidden_value("force", "may not be specified for non-apply patch")
    if problem is not None:
        raise invalid(_GROUP, "PatchOptions", "", [problem])


class _DeleteOptionsBody(msgspec.Struct, rename="camel"):
    kind: str = ""
    api_version: str = ""
    grace_period_seconds: int | None = None
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None
    preconditions: Preconditions | None = None
    dry_run: list[str] | None = None


def parse_delete_options(request: Request, options: WriteOptions) -> DeleteOptions:
    """The options of a delete, from its body or else from the query."""
    body = _decode_delete_options(request)
    if body.dry_run:
        if body.dry_run != ["All"]:
            raise _invalid_delete_options(not_supported_value("dryRun", body.dry_run, ["All"]))
        options.dry_run = True
    parameters = _first_values(request.query)
    grace = body.grace_period_seconds
    if grace is None and (text := parameters.get("gracePeriodSeconds")):
        grace = _parse_integer(text)
    propagation = body.propagation_policy or parameters.get("propagationPolicy")
    orphan = body.orphan_dependents
    if orphan is not None:
        if propagation:
            raise _invalid_delete_options(
                invalid_value(
                    "propagationPolicy",
                    propagation,
                    "orphanDependents and deletionPropagation cannot be both set",
                )
            )
        propagation = "Orphan" if orphan else "Background"
    if propagation and propagation not in _PROPAGATION_POLICIES:
        supported = [*_PROPAGATION_POLICIES, "nil"]
        raise _invalid_delete_options(
            not_supported_value("propagationPolicy", propagation, supported)
        )
    if grace is not None and grace < 0:
        grace = 1
    return DeleteOptions(
        grace,
        _PROPAGATION_POLICIES[propagation] if propagation else None,
        body.preconditions or NO_PRECONDITIONS,
    )


def _decode_delete_options(request: Request) -> _DeleteOptionsBody:
    if not request.body:
        return _DeleteOptionsBody()
    try:
        decoded = decode_body(request.body, request.headers.get("content-type", ""))
        body = msgspec.convert(decoded, _DeleteOptionsBody)
    except msgspec.ValidationError as error:
        raise bad_request(f"DeleteOptions could not be read: {error}") from error
    if body.kind not in ("", "DeleteOptions"):
        raise bad_request(
            f'no kind "{body.kind}" is registered for version "{body.api_version}" '
            'in scheme "pkg/runtime/scheme.go:111"'
        )
    return body


def _invalid_delete_options(problem: FieldError) -> ApiError:
    return invalid(_GROUP, "DeleteOptions", "", [problem])


@lru_cache(maxsize=256)
def default_field_manager(user_agent: str) -> str:
    """The default field manager: the first part of the User-Agent."""
    prefix = user_agent.split("/", 1)[0]
    printable = "".join(character for character in prefix if character.isprintable())
    return printable[:_MAX_MANAGER_LENGTH] or "unknown"


def _validate_field_manager(manager: str) -> list[FieldError]:
    if len(manager) > _MAX_MANAGER_LENGTH:
        return [
            FieldError(
                "fieldManager",
                "FieldValueTooLong",
                f"Too long: may not be more than {_MAX_MANAGER_LENGTH} bytes",
            )
        ]
    if not manager.isprintable():
        return [invalid_value("fieldManager", manager, "should only contain printable characters")]
    return []


def _first_values(query: Query) -> Parameters:
    return dict(reversed(query))


def _parse_selectors(parameters: Parameters) -> tuple[LabelSelector, FieldSelector]:
    return (
        parse_label_selector(parameters.get("labelSelector", "")),
        parse_field_selector(parameters.get("fieldSelector", "")),
    )


def _parse_integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None


def _is_true(text: str) -> bool:
    return text in ("true", "1", "True", "TRUE", "t", "T")


def _parse_version_match(parameters: Parameters) -> ResourceVersionMatch:
    """The resourceVersionMatch of a list, after the checks of the options that depend on it."""
    match = parameters.get("resourceVersionMatch", "")
    version = parameters.get("resourceVersion")
    problems: list[FieldError] = []
    path = "resourceVersionMatch"
    if match:
        if not version:
            problems.append(
                forbidden_value(path, f"{path} is forbidden unless resourceVersion is provided")
            )
        if parameters.get("continue"):
            problems.append(forbidden_value(path, f"{path} is forbidden when continue is provided"))
        if match not in _VERSION_MATCHES:
            problems.append(not_supported_value(path, match, ["Exact", "NotOlderThan", ""]))
        if match == "Exact" and version == "0":
            problems.append(
                forbidden_value(path, f'{path} "exact" is forbidden for resourceVersion "0"')
            )
    if "sendInitialEvents" in parameters:
        problems.append(
            forbidden_value("sendInitialEvents", "sendInitialEvents is forbidden for list")
        )
    if problems:
        raise invalid(_GROUP, "ListOptions", "", problems)
    return _VERSION_MATCHES[match]


def _check_watch_options(parameters: Parameters) -> None:
    match = parameters.get("resourceVersionMatch")
    sends = parameters.get("sendInitialEvents")
    problems: list[FieldError] = []
    path = "resourceVersionMatch"
    if sends is not None and match != "NotOlderThan":
        problems.append(
            forbidden_value(path, f"sendInitialEvents requires setting {path} to NotOlderThan")
        )
    if match:
        if sends is None:
            problems.append(
                forbidden_value(
                    path, f"{path} is forbidden for watch unless sendInitialEvents is provided"
                )
            )
        if match != "NotOlderThan":
            problems.append(not_supported_value(path, match, ["NotOlderThan"]))
        if parameters.get("continue"):
            problems.append(forbidden_value(path, f"{path} is forbidden when continue is provided"))
    if problems:
        raise invalid(_GROUP, "ListOptions", "", problems)
