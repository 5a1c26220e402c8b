"""Handlers of scale, binding, eviction, tokens, reviews, logs and connections."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any

from kilonova.api.json import JsonObject
from kilonova.api.times import format_rfc3339
from kilonova.kube.client.transport import Reply, Request, StreamReply
from kilonova.local.apimachinery.patch import deep_copy
from kilonova.local.apimachinery.unstructured import nested_object, nested_strings
from kilonova.local.apiserver.admission import Attributes
from kilonova.local.apiserver.admission.connect_options import (
    apply_connect_options,
    connect_options,
)
from kilonova.local.apiserver.auth import User
from kilonova.local.apiserver.endpoints.access_reviews import AccessReviews
from kilonova.local.apiserver.endpoints.negotiation import decode_body, negotiate
from kilonova.local.apiserver.endpoints.pod_logs import PodLogHandler
from kilonova.local.apiserver.endpoints.query_options import parse_write_options
from kilonova.local.apiserver.endpoints.resource_target import ResourceTarget
from kilonova.local.apiserver.endpoints.responses import document_response, object_response
from kilonova.local.apiserver.endpoints.token_requests import TokenRequestHandler
from kilonova.local.apiserver.field_manager import FieldFilter, exclude_fields, record_update
from kilonova.local.apiserver.metrics_api import MetricsHandler
from kilonova.local.apiserver.registry.context import RegistryContext
from kilonova.local.apiserver.registry.encoding import decode_entry, encode
from kilonova.local.apiserver.registry.eviction import evict_pod
from kilonova.local.apiserver.registry.object_checks import (
    check_group_version_kind,
    conform_to_schema,
)
from kilonova.local.apiserver.registry.options import WriteOptions
from kilonova.local.apiserver.registry.patches import make_patch_as, parse_patch_type
from kilonova.local.apiserver.registry.pod_binding import bind_pod
from kilonova.local.apiserver.registry.scale import ScaleView, make_rescale, scale_from_object
from kilonova.local.apiserver.registry.writes import ObjectUpdate, make_replacement, update_object
from kilonova.local.apiserver.schema.builtin import builtin_schema
from kilonova.local.apiserver.schema.checker import schema_checker
from kilonova.local.apiserver.schema.node import Schema
from kilonova.local.apiserver.server.warning_headers import add_warnings
from kilonova.local.apiserver.streaming.connect_handlers import connect_handlers
from kilonova.local.kubelet_api import Kubelets

Response = Reply | StreamReply
SubresourceHandler = Callable[[Request, ResourceTarget, User], Awaitable[Response]]

_WITHOUT_STATUS = exclude_fields("status")
_WITHOUT_AUDIENCES = exclude_fields("status", "spec.audiences")

_SCALE = ("autoscaling", "v1", "Scale")
_BINDING = ("", "v1", "Binding")
_EVICTION = ("policy", "v1", "Eviction")
_TOKEN_REQUEST = ("authentication.k8s.io", "v1", "TokenRequest")

_SUCCESS_STATUS: JsonObject = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Success",
    "code": 201,
}


class SubresourceHandlers:
    """Finds the handler for a target that is not a plain object or its status."""

    def __init__(
        self,
        registry: RegistryContext,
        tokens: TokenRequestHandler,
        reviews: AccessReviews,
        kubelets: Kubelets,
    ) -> None:
        self._registry = registry
        self._reviews = reviews
        self._tokens = tokens
        self._logs = PodLogHandler(kubelets)
        self._metrics = MetricsHandler(registry, kubelets)
        self._handlers: dict[tuple[str, str, str], SubresourceHandler] = {
            ("", "pods", "binding"): self._bind,
            ("", "pods", "eviction"): self._evict,
            ("", "pods", "log"): self._read_log,
            ("", "bindings", ""): self._bind_by_name,
            ("", "namespaces", "finalize"): self._finalize,
            ("", "serviceaccounts", "token"): self._issue_token,
        }
        for path, endpoint in connect_handlers(registry, kubelets).items():
            self._handlers[path] = self._admit_connection(endpoint)

    def find(self, target: ResourceTarget) -> SubresourceHandler | None:
        kind = target.kind
        if target.subresource == "scale":
            return self._scale
        if self._reviews.handles(kind):
            return self._review
        if self._metrics.handles(kind):
            return self._metrics.handle
        return self._handlers.get((kind.group, kind.plural, target.subresource))

    async def _scale(self, request: Request, target: ResourceTarget, user: User) -> Response:
        accepted = negotiate(request.headers.get("accept") or "*/*")
        if request.method == "GET":
            return document_response(
                scale_from_object(
                    target.kind, decode_entry(target.kind, self._registry.get_entry(target))
                ),
                accepted,
            )
        make_scale: ObjectUpdate
        if request.method == "PUT":
            options = parse_write_options(request, user, "UpdateOptions")
            make_scale = make_replacement(target, _decode_body(request, *_SCALE))
        else:
            options = parse_write_options(request, user, "PatchOptions")
            media_type = parse_patch_type(request.headers.get("content-type", ""), target)
            make_scale = make_patch_as(
                target, media_type, request.body, lambda scale: _conform_to_schema(scale, *_SCALE)
            )
        outcome = await update_object(
            self._registry,
            target,
            options,
            make_rescale(target, make_scale),
            view=ScaleView(target.kind),
        )
        answer = document_response(
            scale_from_object(target.kind, decode_entry(target.kind, outcome.entry)), accepted
        )
        add_warnings(answer, options.warnings)
        return answer

    async def _bind(self, request: Request, target: ResourceTarget, user: User) -> Response:
        options = parse_write_options(request, user, "CreateOptions")
        binding = await self._admit(target, _decode_body(request, *_BINDING), options)
        await bind_pod(self._registry, target, binding, options)
        return _created_response(_SUCCESS_STATUS, options)

    async def _bind_by_name(self, request: Request, target: ResourceTarget, user: User) -> Response:
        options = parse_write_options(request, user, "CreateOptions")
        binding = await self._admit(target, _decode_body(request, *_BINDING), options)
        pods = self._registry.served_kinds.find("", "v1", "pods")
        assert pods is not None
        name = nested_object(binding, "metadata").get("name", "")
        await bind_pod(
            self._registry,
            ResourceTarget(pods, target.namespace, name, "binding"),
            binding,
            options,
        )
        return _created_response(_SUCCESS_STATUS, options)

    async def _evict(self, request: Request, target: ResourceTarget, user: User) -> Response:
        options = parse_write_options(request, user, "CreateOptions")
        eviction = await self._admit(target, _decode_body(request, *_EVICTION), options)
        await evict_pod(self._registry, target, eviction, options)
        return _created_response(_SUCCESS_STATUS, options)

    async def _read_log(self, request: Request, target: ResourceTarget, user: User) -> Response:
        reply = await self._logs.handle(self._registry.get_entry(target).decode(), request)
        if "upgrade" in request.headers and isinstance(reply, StreamReply):
            from kilonova.local.apiserver.streaming.websocket.server_output import (
                is_websocket_request,
                log_over_websocket,
            )

            if is_websocket_request(request):
                return log_over_websocket(request, reply)
        return reply

    async def _finalize(self, request: Request, target: ResourceTarget, user: User) -> Response:
        options = parse_write_options(request, user, "UpdateOptions")
        finalizers = nested_strings(
            _decode_body(request, "", "v1", "Namespace"), "spec", "finalizers"
        )

        def make(namespace: JsonObject | None) -> JsonObject:
            assert namespace is not None
            spec = {**nested_object(namespace, "spec"), "finalizers": finalizers}
            return {**namespace, "spec": spec if finalizers else {}}

        outcome = await update_object(self._registry, target, options, make)
        accepted = negotiate(request.headers.get("accept") or "*/*")
        return object_response(self._registry, target.kind, outcome.entry, accepted, request)

    async def _issue_token(self, request: Request, target: ResourceTarget, user: User) -> Response:
        options = parse_write_options(request, user, "CreateOptions")
        account = self._registry.get_entry(target).decode()
        admitted = await self._admit(target, _decode_body(request, *_TOKEN_REQUEST), options)
        answer = self._tokens.issue(account, admitted)
        schema = builtin_schema(*_TOKEN_REQUEST)
        chose_audiences = bool(nested_object(admitted, "spec").get("audiences"))
        self._record_managed_fields(
            answer,
            schema,
            target,
            options,
            _WITHOUT_STATUS if chose_audiences else _WITHOUT_AUDIENCES,
        )
        return _created_response(answer, options)

    async def _review(self, request: Request, target: ResourceTarget, user: User) -> Response:
        options = parse_write_options(request, user, "CreateOptions")
        review = decode_body(request.body, request.headers.get("content-type", ""))
        check_group_version_kind(target, review, self._registry.served_kinds.has_kind)
        conform_to_schema(target, review, None, options)
        review = await self._admit(target, review, options)
        answer = self._reviews.review(target, review, user)
        # The response to a SelfSubjectRulesReview does not contain the request.
        if target.kind.kind != "SelfSubjectRulesReview":
            self._record_managed_fields(answer, target.kind.schema, target, options)
        return _created_response(answer, options)

    def _admit_connection(self, endpoint: SubresourceHandler) -> SubresourceHandler:
        """The handler of a connection, called after admission."""

        async def connect(request: Request, target: ResourceTarget, user: User) -> Response:
            options = connect_options(target, request.query)
            requested_options = deep_copy(options)
            admitted = await self._registry.admission.connect(target, user, requested_options, [])
            if admitted != options:
                request = replace(request, query=apply_connect_options(admitted, request.query))
            return await endpoint(request, target, user)

        return connect

    async def _admit(
        self, target: ResourceTarget, obj: JsonObject, options: WriteOptions
    ) -> JsonObject:
        """The request object after admission."""
        return await self._registry.admission.admit(
            Attributes(
                "CREATE",
                target,
                options.user,
                obj,
                None,
                options.dry_run,
                options.warnings,
                partial(options.to_object, "CreateOptions"),
            )
        )

    def _record_managed_fields(
        self,
        response: JsonObject,
        schema: Schema,
        target: ResourceTarget,
        options: WriteOptions,
        ignored: FieldFilter = _WITHOUT_STATUS,
    ) -> None:
        """Record the field manager, as for an object that is stored."""
        record_update(
            None,
            response,
            schema,
            manager=options.manager,
            api_version=response["apiVersion"],
            time=format_rfc3339(self._registry.clock.now()),
            subresource=target.subresource,
            ignored=ignored,
        )


def _decode_body(request: Request, group: str, version: str, kind: str) -> JsonObject:
    """The body as an object of a built-in kind; 400 if a field has the wrong type."""
    api_version = f"{group}/{version}" if group else version
    obj = decode_body(request.body, request.headers.get("content-type", ""), api_version, kind)
    return _conform_to_schema(obj, group, version, kind)


def _conform_to_schema(obj: Any, group: str, version: str, kind: str) -> JsonObject:
    schema_checker(builtin_schema(group, version, kind)).conform(obj, kind, version)
    return obj


def _created_response(obj: JsonObject, options: WriteOptions) -> Reply:
    answer = Reply(201, encode(obj), {"content-type": "application/json"})
    add_warnings(answer, options.warnings)
    return answer
