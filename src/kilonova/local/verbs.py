"""HTTP methods on resources: what is read from a request, which verb runs, how it is answered."""

from collections.abc import AsyncIterator
from random import Random

from kilonova.api.json import JsonObject
from kilonova.api.times import rfc3339
from kilonova.kube.transport import Reply, Request, StreamReply
from kilonova.local.auth import Action, Gate, User
from kilonova.local.auth.actions import wants_watch
from kilonova.local.errors import (
    ApiError,
    bad_request,
    forbidden_field,
    invalid,
    method_not_allowed,
    too_large,
)
from kilonova.local.kinds.base import Kind
from kilonova.local.negotiation import JSON, Shape, Wanted, decode_body, summary, wanted
from kilonova.local.presentation import (
    present_list,
    present_object,
    status_success,
    watch_writer,
)
from kilonova.local.registry.checks import admit_fields, check_identity
from kilonova.local.registry.core import Registry
from kilonova.local.registry.deletes import delete, delete_collection, delete_options
from kilonova.local.registry.options import WriteOptions, apply_needs_manager, write_options
from kilonova.local.registry.patches import APPLY_PATCH, applying, patch_type, patching
from kilonova.local.registry.reads import check_version_asked, read_list
from kilonova.local.registry.watches import watch, watch_options
from kilonova.local.registry.writes import Make, Outcome, change, create, replacement
from kilonova.local.routes import Target
from kilonova.local.subresources import Subresources
from kilonova.local.warningheaders import add_warnings

BODY_LIMIT = 3 << 20

Answer = Reply | StreamReply


class Verbs:
    """Performs the verb that a method and a path stand for."""

    def __init__(
        self, registry: Registry, subresources: Subresources, gate: Gate, random: Random
    ) -> None:
        self._registry = registry
        self._subresources = subresources
        self._gate = gate
        self._random = random

    async def perform(self, request: Request, target: Target, user: User) -> Answer:
        """Answer one request about a resource."""
        if len(request.body) > BODY_LIMIT:
            raise too_large(BODY_LIMIT)
        answer = await self._perform(request, target, user)
        if deprecation := target.kind.behavior.deprecation:
            add_warnings(answer, [deprecation])
        return answer

    async def _perform(self, request: Request, target: Target, user: User) -> Answer:
        special = self._subresources.find(target)
        if special is not None:
            return await special(request, target, user)
        form = wanted(request.headers.get("accept") or "*/*", is_list=not target.name)
        match request.method:
            case "GET" | "HEAD":
                return await self._get(request, target, form)
            case "POST":
                return await self._post(request, target, user, form)
            case "PUT":
                return await self._put(request, target, user, form)
            case "PATCH":
                return await self._patch(request, target, user, form)
            case "DELETE":
                return await self._delete(request, target, user, form)
            case _:
                raise method_not_allowed()

    async def _get(self, request: Request, target: Target, form: Wanted) -> Answer:
        watching = wants_watch(request)
        if target.name:
            _allow("get", target)
            check_version_asked(request, self._registry.store.rv)
            entry = self._registry.entry(target)
            return present_object(self._registry, target.kind, entry, form, request)
        _allow("watch" if watching else "list", target)
        if watching:
            return await self._watch(request, target, form)
        page = read_list(self._registry, target, request)
        return present_list(self._registry, target.kind, page, form, request)

    async def _watch(self, request: Request, target: Target, form: Wanted) -> StreamReply:
        options = watch_options(target, request, self._random)
        writer = watch_writer(self._registry, form, request)
        lines: AsyncIterator[bytes] = await watch(self._registry, target, options, writer)
        content_type = JSON if form.shape is Shape.WHOLE else form.content_type
        reply = StreamReply(
            200, lines, {"content-type": content_type, "cache-control": "no-cache, private"}
        )
        if "upgrade" in request.headers:
            from kilonova.local.streaming.output import is_websocket_request, watch_messages

            if is_websocket_request(request):
                return watch_messages(request, reply)
        return reply

    async def _post(self, request: Request, target: Target, user: User, form: Wanted) -> Answer:
        if target.name or (target.kind.namespaced and not target.namespace):
            raise method_not_allowed()
        _allow("create", target)
        options = write_options(request, user, "CreateOptions")
        obj = self._body(request, target, options)
        outcome = await create(self._registry, target, obj, options)
        return self._written(request, target, outcome, options, form)

    async def _put(self, request: Request, target: Target, user: User, form: Wanted) -> Answer:
        _allow("update", target)
        options = write_options(request, user, "UpdateOptions")
        obj = self._body(request, target, options)
        outcome = await change(
            self._registry,
            target,
            options,
            self._creating_by_right(replacement(target, obj), target, user),
            create_missing=target.kind.behavior.create_on_update and not target.subresource,
        )
        return self._written(request, target, outcome, options, form)

    async def _patch(self, request: Request, target: Target, user: User, form: Wanted) -> Answer:
        _allow("patch", target)
        media_type = patch_type(request.headers.get("content-type", ""), target)
        options = write_options(request, user, "PatchOptions")
        if media_type == APPLY_PATCH:
            apply_needs_manager(request)
            now = rfc3339(self._registry.clock.now())
            make = self._creating_by_right(
                applying(target, request.body, options, now), target, user
            )
            outcome = await change(
                self._registry, target, options, make, create_missing=not target.subresource
            )
        else:
            if request.param("force") is not None:
                raise invalid(
                    "meta.k8s.io",
                    "PatchOptions",
                    "",
                    [forbidden_field("force", "may not be specified for non-apply patch")],
                )
            make = patching(target, media_type, request.body, options)
            outcome = await change(self._registry, target, options, make)
        return self._written(request, target, outcome, options, form)

    def _creating_by_right(self, make: Make, target: Target, user: User) -> Make:
        """Who changes what is not there yet creates it, and must be allowed to."""
        kind = target.kind

        def made(old: JsonObject | None) -> JsonObject:
            if old is None:
                where = (target.subresource, target.namespace, target.name)
                self._gate.require(
                    user, Action("create", kind.group, kind.version, kind.plural, *where)
                )
            return make(old)

        return made

    async def _delete(self, request: Request, target: Target, user: User, form: Wanted) -> Answer:
        options = write_options(request, user, "DeleteOptions")
        wanted_options = delete_options(request, options)
        if not target.name:
            if target.kind.namespaced and not target.namespace:
                raise method_not_allowed()
            _allow("deletecollection", target)
            page = await delete_collection(self._registry, target, request, wanted_options, options)
            listed = present_list(self._registry, target.kind, page, form, request)
            add_warnings(listed, options.warnings)
            return listed
        _allow("delete", target)
        outcome = await delete(self._registry, target, wanted_options, options)
        if outcome.removed and not target.kind.behavior.shown_when_deleted:
            answer = status_success(target, outcome.entry)
        else:
            answer = present_object(self._registry, target.kind, outcome.entry, form, request)
        add_warnings(answer, options.warnings)
        return answer

    def _body(self, request: Request, target: Target, options: WriteOptions) -> JsonObject:
        content_type = request.headers.get("content-type", "")
        kind = target.kind
        try:
            obj = decode_body(request.body, content_type, kind.api_version, kind.kind)
        except ApiError as error:
            if error.code != 400 or kind.custom:
                raise
            raise bad_request(
                f"the object provided is unrecognized (must be of type {kind.kind}): "
                f"{error.message} ({summary(request.body)})"
            ) from error
        check_identity(target, obj, self._registry.catalog.has_kind)
        raw = None if request.body.startswith(b"k8s\0") else request.body
        admit_fields(target, obj, raw, options)
        return obj

    def _written(
        self,
        request: Request,
        target: Target,
        outcome: Outcome,
        options: WriteOptions,
        form: Wanted,
    ) -> Reply:
        answer = present_object(self._registry, target.kind, outcome.entry, form, request)
        answer.status = 201 if outcome.created else 200
        add_warnings(answer, options.warnings)
        return answer


def _allow(verb: str, target: Target) -> None:
    kind: Kind = target.kind
    verbs = kind.subresources[target.subresource].verbs if target.subresource else kind.verbs
    if verb not in verbs:
        raise method_not_allowed()
    if verb in ("update", "patch", "delete") and not target.name:
        raise method_not_allowed()
    if verb == "create" and target.name and not target.subresource:
        raise bad_request("the name of the object is given in the body, not in the path")
