"""The options of the verbs, as meta/v1 has them: parsed before a verb is called.

`endpoints.query_options` parses them from the query and the body. A resourceVersion stays text: the
verbs report an invalid one differently.
"""

from typing import Literal

import msgspec

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.selectors import EVERYTHING, FieldSelector, LabelSelector
from kilonova.local.apiserver.auth import User

FieldValidation = Literal["Strict", "Warn", "Ignore"]
ResourceVersionMatch = Literal["", "Exact", "NotOlderThan"]
PropagationPolicy = Literal["Foreground", "Background", "Orphan"]

_EVERY_FIELD = FieldSelector()


class GetOptions(msgspec.Struct, frozen=True):
    """The options of a get."""

    resource_version: str = ""


class ListOptions(msgspec.Struct, frozen=True):
    """The options of a list, and of the deletion of a collection; `limit` 0 is no limit."""

    label_selector: LabelSelector = EVERYTHING
    field_selector: FieldSelector = _EVERY_FIELD
    resource_version: str = ""
    resource_version_match: ResourceVersionMatch = ""
    limit: int = 0
    continue_token: str = ""


class WatchOptions(msgspec.Struct, frozen=True):
    """The options of a watch."""

    timeout_seconds: float
    label_selector: LabelSelector = EVERYTHING
    field_selector: FieldSelector = _EVERY_FIELD
    resource_version: str = ""
    send_initial_events: bool | None = None  # None: the resourceVersion decides
    bookmarks: bool = False


class WriteOptions(msgspec.Struct):
    """The options of one write; `warnings` collects the warning headers of the response."""

    user: User
    manager: str  # `field_manager`, or its default
    field_manager: str = ""
    field_validation: FieldValidation | None = None
    dry_run: bool = False
    force: bool | None = None
    is_apply: bool = False  # server-side apply has set the managed fields already
    warnings: list[str] = []
    verb: str = "update"  # of an existing object: `update` or `patch`

    @property
    def validation(self) -> FieldValidation:
        """The field validation, or its default."""
        return self.field_validation or "Warn"

    def to_object(self, kind: str) -> JsonObject:
        """The client's options as an object of this kind (`CreateOptions` …), for admission."""
        obj: JsonObject = {"kind": kind, "apiVersion": "meta.k8s.io/v1"}
        if self.dry_run:
            obj["dryRun"] = ["All"]
        if self.field_manager:
            obj["fieldManager"] = self.field_manager
        if self.field_validation is not None:
            obj["fieldValidation"] = self.field_validation
        return obj


class Preconditions(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A delete applies to the object with this uid and resourceVersion only."""

    uid: str | None = None
    resource_version: str | None = None


NO_PRECONDITIONS = Preconditions()


class DeleteOptions(msgspec.Struct, frozen=True):
    """What a delete has in addition to other writes."""

    grace_seconds: int | None = None
    propagation_policy: PropagationPolicy | None = None
    preconditions: Preconditions = NO_PRECONDITIONS

    def to_object(self, options: WriteOptions) -> JsonObject:
        """The options as an object, for admission."""
        obj: JsonObject = {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"}
        if options.dry_run:
            obj["dryRun"] = ["All"]
        fields = {
            "gracePeriodSeconds": self.grace_seconds,
            "preconditions": msgspec.to_builtins(self.preconditions) or None,
            "propagationPolicy": self.propagation_policy,
        }
        return obj | {name: value for name, value in fields.items() if value is not None}
