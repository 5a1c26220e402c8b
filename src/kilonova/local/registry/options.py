"""What a request asks for beside the object: dry run, field manager, strictness."""

from functools import lru_cache
from typing import Literal

import msgspec

from kilonova.api.json import JsonObject
from kilonova.kube.transport import Query, Request
from kilonova.local.auth import User
from kilonova.local.errors import ApiError, Problem, invalid, invalid_value, not_supported

FieldValidation = Literal["Strict", "Warn", "Ignore"]
_MANAGER_LENGTH = 128


class WriteOptions(msgspec.Struct):
    """Options of one write; `warnings` gathers what the client is told beside the answer."""

    user: User
    manager: str
    dry_run: bool = False
    validation: FieldValidation = "Warn"
    force: bool = False
    applied: bool = False  # server-side apply has settled who owns what
    warnings: list[str] = []
    query: Query = []  # as the client sent it
    verb: str = "update"  # what of an existing object: `update`, or `patch`

    def described(self, kind: str) -> JsonObject:
        """What the client asked for, as an object of this kind (`CreateOptions` …)."""
        told: JsonObject = {"kind": kind, "apiVersion": "meta.k8s.io/v1"}
        if self.dry_run:
            told["dryRun"] = ["All"]
        for name, value in self.query:
            if name in ("fieldManager", "fieldValidation") and value:
                told[name] = value
        return told


def write_options(request: Request, user: User, options_kind: str) -> WriteOptions:
    """The options of a write request; `options_kind` (`CreateOptions` …) is for messages."""
    problems: list[Problem] = []
    dry_runs = [value for name, value in request.query if name == "dryRun" and value]
    if any(value != "All" for value in dry_runs):
        problems.append(not_supported("dryRun", dry_runs, ["All"]))
    validation = request.param("fieldValidation") or "Warn"
    if validation not in ("Strict", "Warn", "Ignore"):
        problems.append(
            not_supported("fieldValidation", validation, ["", "Ignore", "Strict", "Warn"])
        )
        validation = "Warn"
    manager = request.param("fieldManager") or ""
    problems.extend(_manager_problems(manager))
    if problems:
        raise invalid("meta.k8s.io", options_kind, "", problems)
    return WriteOptions(
        user,
        manager or manager_from(request.headers.get("user-agent", "")),
        dry_run=bool(dry_runs),
        validation=validation,
        force=request.param("force") in ("true", "1", "True", "t"),
        query=request.query,
        verb="patch" if request.method == "PATCH" else "update",
    )


def apply_needs_manager(request: Request) -> None:
    """Server-side apply must say who applies."""
    if not request.param("fieldManager"):
        raise _no_manager()


@lru_cache(maxsize=256)
def manager_from(user_agent: str) -> str:
    """The field manager of a client that names none: the start of its User-Agent."""
    prefix = user_agent.split("/", 1)[0]
    printable = "".join(letter for letter in prefix if letter.isprintable())
    return printable[:_MANAGER_LENGTH] or "unknown"


def _manager_problems(manager: str) -> list[Problem]:
    if len(manager) > _MANAGER_LENGTH:
        return [
            Problem(
                "fieldManager",
                "FieldValueTooLong",
                f"Too long: may not be more than {_MANAGER_LENGTH} bytes",
            )
        ]
    if not manager.isprintable():
        return [invalid_value("fieldManager", manager, "should only contain printable characters")]
    return []


def _no_manager() -> ApiError:
    return invalid(
        "meta.k8s.io",
        "PatchOptions",
        "",
        [
            Problem(
                "fieldManager", "FieldValueRequired", "Required value: is required for apply patch"
            )
        ],
    )
