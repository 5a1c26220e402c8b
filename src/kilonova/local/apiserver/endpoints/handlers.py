"""HTTP methods on resources: decode the request, run the verb, encode the response."""

from collections.abc import AsyncIterator
from dataclasses import replace
from random import Random

from kilonova.api.json import JsonObject
from kilonova.api.times import format_rfc3339
from kilonova.kube.client.transport import Reply, Request, StreamReply
from kilonova.local.apimachinery.errors import (
    ApiError,
    bad_request,
    method_not_allowed,
    too_large,
)
from kilonova.local.apiserver.auth import AuthorizationFilter, User
from kilonova.local.apiserver.auth.authorization_filter import request_attributes
from kilonova.local.apiserver.endpoints.negotiation import (
    JSON,
    AcceptedMediaType,
    Representation,
    decode_body,
    negotiate,
    summarize_body,
)
from kilonova.local.apiserver.endpoints.query_options import (
    check_patch_options,
    parse_delete_options,
    parse_get_options,
    parse_list_options,
    parse_watch_options,
    parse_write_options,
)
from kilonova.local.apiserver.endpoints.request_info import RequestInfo
from kilonova.local.apiserver.endpoints.resource_target import ResourceTarget
from kilonova.local.apiserver.endpoints.responses import (
    deletion_status,
    list_response,
    object_response,
    watch_encoder,
)
from kilonova.local.apiserver.endpoints.subresources import SubresourceHandlers
from kilonova.local.apiserver.kinds.kind import Kind
from kilonova.local.apiserver.registry.context import RegistryContext
from kilonova.local.apiserver.registry.deletion import delete_collection, delete_object
from kilonova.local.apiserver.registry.lists import check_resource_version, list_entries
from kilonova.local.apiserver.registry.object_checks import (
    check_group_version_kind,
    conform_to_schema,
)
from kilonova.local.apiserver.registry.options import WriteOptions
from kilonova.local.apiserver.registry.patches import (
    APPLY_PATCH,
    make_apply,
    make_patch,
    parse_patch_type,
)
from kilonova.local.apiserver.registry.watches import open_watch
from kilonova.local.apiserver.registry.writes import (
    ObjectUpdate,
    WriteResult,
    create_object,
    make_replacement,
    update_object,
)
from kilonova.local.apiserver.server.warning_headers import add_warnings

BODY_LIMIT = 3 << 20

Response = Reply | StreamReply


class ResourceHandler:
    """Runs the verb of a method and a path."""

    def __init__(
        self,
        registry: RegistryContext,
        subresources: SubresourceHandlers,
        authorization: AuthorizationFilter,
        random: Random,
    ) -> None:
        self._registry = registry
        self._subresources = subresources
        self._authorization = authorization
        self._random = random

    async def handle(
        self, request: Request, info: RequestInfo, target: ResourceTarget, user: User
    ) -> Response:
        """Handle one request for a resource."""
        if len(request.body) > BODY_LIMIT:
            raise too_large(BODY_LIMIT)
        response = await self._dispatch(request, info, target, user)
        if deprecation := target.kind.strategy.deprecation:
            add_warnings(response, [deprecation])
        return response

    async def _dispatch(
        self, request: Request, info: RequestInfo, target: ResourceTarget, user: User
    ) -> Response:
        if not info.is_proxy:  # which forwards other methods too
            _check_verb_supported(info.verb, target)
        special = self._subresources.find(target)
        if special is not None:
            if request.method == "HEAD" and not info.is_proxy:
                raise method_not_allowed()
            return await special(request, target, user)
        accepted = negotiate(request.headers.get("accept") or "*/*", is_list=not target.name)
        match info.verb:
            case "get":
                return self._get(request, target, accepted)
            case "list":
                return self._list(request, target, accepted)
            case "watch":
                return await self._watch(request, target, accepted)
            case "create":
                return await self._create(request, target, user, accepted)
            case "update":
                return await self._update(request, info, target, user, accepted)
            case "patch":
                return await self._patch(request, info, target, user, accepted)
            case "delete":
                return await self._delete(request, target, user, accepted)
            case "deletecollection":
                return await self._delete_collection(request, target, user, accepted)
            case _:
                raise method_not_allowed()

    def _get(
        self, request: Request, target: ResourceTarget, accepted: AcceptedMediaType
    ) -> Response:
        options = parse_get_options(request.query)
        check_resource_version(options.resource_version, self._registry.store.revision)
        entry = self._registry.get_entry(target)
        return object_response(self._registry, target.kind, entry, accepted, request)

    def _list(
        self, request: Request, target: ResourceTarget, accepted: AcceptedMediaType
    ) -> Response:
        page = list_entries(self._registry, target, parse_list_options(request.query))
        return list_response(self._registry, target.kind, page, accepted, request)

    async def _watch(
        self, request: Request, target: ResourceTarget, accepted: AcceptedMediaType
    ) -> StreamReply:
        options = parse_watch_options(request.query, self._random)
        writer = watch_encoder(self._registry, accepted, request)
        lines: AsyncIterator[bytes] = await open_watch(self._registry, target, options, writer)
        content_type = (
            JSON if accepted.representation is Representation.OBJECT else accepted.content_type
        )
        reply = StreamReply(
            200, lines, {"content-type": content_type, "cache-control": "no-cache, private"}
        )
        if "upgrade" in request.headers:
            from kilonova.local.apiserver.streaming.websocket.server_output import (
                is_websocket_request,
                watch_over_websocket,
            )

            if is_websocket_request(request):
                return watch_over_websocket(request, reply)
        return reply

    async def _create(
        self, request: Request, target: ResourceTarget, user: User, accepted: AcceptedMediaType
    ) -> Response:
        options = parse_write_options(request, user, "CreateOptions")
        obj = self._decode_body(request, target, options)
        outcome = await create_object(self._registry, target, obj, options)
        return self._write_response(request, target, outcome, options, accepted)

    async def _update(
        self,
        request: Request,
        info: RequestInfo,
        target: ResourceTarget,
        user: User,
        accepted: AcceptedMediaType,
    ) -> Response:
        options = parse_write_options(request, user, "UpdateOptions")
        obj = self._decode_body(request, target, options)
        outcome = await update_object(
            self._registry,
            target,
            options,
            self._require_create_permission(make_replacement(target, obj), info, user),
            create_if_missing=target.kind.strategy.allows_create_on_update
            and not target.subresource,
        )
        return self._write_response(request, target, outcome, options, accepted)

    async def _patch(
        self,
        request: Request,
        info: RequestInfo,
        target: ResourceTarget,
        user: User,
        accepted: AcceptedMediaType,
    ) -> Response:
        media_type = parse_patch_type(request.headers.get("content-type", ""), target)
        options = parse_write_options(request, user, "PatchOptions")
        is_apply = media_type == APPLY_PATCH
        check_patch_options(options, is_apply=is_apply)
        if is_apply:
            now = format_rfc3339(self._registry.clock.now())
            make = self._require_create_permission(
                make_apply(target, request.body, options, now), info, user
            )
            outcome = await update_object(
                self._registry, target, options, make, create_if_missing=not target.subresource
            )
        else:
            make = make_patch(target, media_type, request.body, options)
            outcome = await update_object(self._registry, target, options, make)
        return self._write_response(request, target, outcome, options, accepted)

    def _require_create_permission(
        self, make: ObjectUpdate, info: RequestInfo, user: User
    ) -> ObjectUpdate:
        """An update of an object that does not exist creates it, which requires permission to
        create."""

        def make_if_allowed(old: JsonObject | None) -> JsonObject:
            if old is None:
                action = replace(request_attributes(info), verb="create")
                self._authorization.require_allowed(user, action)
            return make(old)

        return make_if_allowed

    async def _delete(
        self, request: Request, target: ResourceTarget, user: User, accepted: AcceptedMediaType
    ) -> Response:
        options = parse_write_options(request, user, "DeleteOptions")
        delete_options = parse_delete_options(request, options)
        outcome = await delete_object(self._registry, target, delete_options, options)
        if outcome.is_removed and not target.kind.strategy.returns_deleted_object:
            response = deletion_status(target, outcome.entry)
        else:
            response = object_response(
                self._registry, target.kind, outcome.entry, accepted, request
            )
        add_warnings(response, options.warnings)
        return response

    async def _delete_collection(
        self, request: Request, target: ResourceTarget, user: User, accepted: AcceptedMediaType
    ) -> Response:
        options = parse_write_options(request, user, "DeleteOptions")
        delete_options = parse_delete_options(request, options)
        list_options = parse_list_options(request.query)
        page = await delete_collection(
            self._registry, target, list_options, delete_options, options
        )
        listed = list_response(self._registry, target.kind, page, accepted, request)
        add_warnings(listed, options.warnings)
        return listed

    def _decode_body(
        self, request: Request, target: ResourceTarget, options: WriteOptions
    ) -> JsonObject:
        content_type = request.headers.get("content-type", "")
        kind = target.kind
        try:
            obj = decode_body(request.body, content_type, kind.api_version, kind.kind)
        except ApiError as error:
            if error.code != 400 or kind.is_custom:
                raise
            raise bad_request(
                f"the object provided is unrecognized (must be of type {kind.kind}): "
                f"{error.message} ({summarize_body(request.body)})"
            ) from error
        check_group_version_kind(target, obj, self._registry.served_kinds.has_kind)
        raw = None if request.body.startswith(b"k8s\0") else request.body
        conform_to_schema(target, obj, raw, options)
        return obj

    def _write_response(
        self,
        request: Request,
        target: ResourceTarget,
        outcome: WriteResult,
        options: WriteOptions,
        accepted: AcceptedMediaType,
    ) -> Reply:
        response = object_response(self._registry, target.kind, outcome.entry, accepted, request)
        response.status = 201 if outcome.is_created else 200
        add_warnings(response, options.warnings)
        return response


def _check_verb_supported(verb: str, target: ResourceTarget) -> None:
    kind: Kind = target.kind
    verbs = kind.subresources[target.subresource].verbs if target.subresource else kind.verbs
    if verb not in verbs:
        raise method_not_allowed()
    if verb in ("update", "patch", "delete") and not target.name:
        raise method_not_allowed()
    if verb == "create" and target.name and not target.subresource:
        raise method_not_allowed()
    if verb in ("create", "deletecollection") and kind.namespaced and not target.namespace:
        raise method_not_allowed()
