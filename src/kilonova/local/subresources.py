"""Endpoints that are not plain objects: scale, binding, eviction, tokens, reviews, logs."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any

from kilonova.api.json import JsonObject
from kilonova.api.times import rfc3339
from kilonova.kube.transport import Reply, Request, StreamReply
from kilonova.local.admission import Attributes
from kilonova.local.admission.connecting import connect_options, connect_query
from kilonova.local.apply import Filter, ignoring, record_update
from kilonova.local.auth import User
from kilonova.local.errors import method_not_allowed
from kilonova.local.kinds.walk import part, strings
from kilonova.local.kubelets import Kubelets
from kilonova.local.logs import PodLogs
from kilonova.local.metricsapi import Metrics
from kilonova.local.negotiation import decode_body, wanted
from kilonova.local.patch import copied
from kilonova.local.presentation import document, present_object
from kilonova.local.registry.checks import admit_fields, check_identity
from kilonova.local.registry.core import Registry
from kilonova.local.registry.eviction import evict
from kilonova.local.registry.objects import encode, shown
from kilonova.local.registry.options import WriteOptions, write_options
from kilonova.local.registry.patches import patch_type, patching_as
from kilonova.local.registry.pods import bind
from kilonova.local.registry.scale import ScaleView, rescaling, scale_of
from kilonova.local.registry.writes import Make, change, replacement
from kilonova.local.reviews import Reviews
from kilonova.local.routes import Target
from kilonova.local.schema.builtin import builtin_schema
from kilonova.local.schema.check import checker
from kilonova.local.schema.node import Schema
from kilonova.local.streaming.endpoints import connect_endpoints
from kilonova.local.tokens import TokenRequests
from kilonova.local.warningheaders import add_warnings

Answer = Reply | StreamReply
Endpoint = Callable[[Request, Target, User], Awaitable[Answer]]

_WITHOUT_STATUS = ignoring("status")
_AS_ISSUED = ignoring("status", "spec.audiences")

_SCALE = ("autoscaling", "v1", "Scale")
_BINDING = ("", "v1", "Binding")
_EVICTION = ("policy", "v1", "Eviction")
_TOKEN_REQUEST = ("authentication.k8s.io", "v1", "TokenRequest")

_DONE: JsonObject = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Success",
    "code": 201,
}


class Subresources:
    """Finds the endpoint for a target that is not a plain object or its status."""

    def __init__(
        self, registry: Registry, tokens: TokenRequests, reviews: Reviews, kubelets: Kubelets
    ) -> None:
        self._registry = registry
        self._reviews = reviews
        self._tokens = tokens
        self._logs = PodLogs(kubelets)
        self._metrics = Metrics(registry, kubelets)
        self._endpoints: dict[tuple[str, str, str], Endpoint] = {
            ("", "pods", "binding"): self._bind,
            ("", "pods", "eviction"): self._evict,
            ("", "pods", "log"): self._log,
            ("", "bindings", ""): self._bind_by_name,
            ("", "namespaces", "finalize"): self._finalize,
            ("", "serviceaccounts", "token"): self._token,
        }
        for path, endpoint in connect_endpoints(registry, kubelets).items():
            self._endpoints[path] = self._connecting(endpoint)

    def find(self, target: Target) -> Endpoint | None:
        kind = target.kind
        if target.subresource == "scale":
            return self._scale
        if self._reviews.handles(kind):
            return self._review
        if self._metrics.handles(kind):
            return self._metrics.answer
        return self._endpoints.get((kind.group, kind.plural, target.subresource))

    async def _scale(self, request: Request, target: Target, user: User) -> Answer:
        form = wanted(request.headers.get("accept") or "*/*")
        if request.method == "GET":
            return document(
                scale_of(target.kind, shown(target.kind, self._registry.entry(target))), form
            )
        make_scale: Make
        if request.method == "PUT":
            options = write_options(request, user, "UpdateOptions")
            make_scale = replacement(target, _body(request, *_SCALE))
        elif request.method == "PATCH":
            options = write_options(request, user, "PatchOptions")
            media_type = patch_type(request.headers.get("content-type", ""), target)
            make_scale = patching_as(
                target, media_type, request.body, lambda scale: _admitted(scale, *_SCALE)
            )
        else:
            raise method_not_allowed()
        outcome = await change(
            self._registry,
            target,
            options,
            rescaling(target, make_scale),
            view=ScaleView(target.kind),
        )
        answer = document(scale_of(target.kind, shown(target.kind, outcome.entry)), form)
        add_warnings(answer, options.warnings)
        return answer

    async def _bind(self, request: Request, target: Target, user: User) -> Answer:
        options = _only("POST", request, user)
        binding = await self._admitted(target, _body(request, *_BINDING), options)
        await bind(self._registry, target, binding, options)
        return _created(_DONE, options)

    async def _bind_by_name(self, request: Request, target: Target, user: User) -> Answer:
        options = _only("POST", request, user)
        binding = await self._admitted(target, _body(request, *_BINDING), options)
        pods = self._registry.catalog.find("", "v1", "pods")
        assert pods is not None
        name = part(binding, "metadata").get("name", "")
        await bind(
            self._registry, Target(pods, target.namespace, name, "binding"), binding, options
        )
        return _created(_DONE, options)

    async def _evict(self, request: Request, target: Target, user: User) -> Answer:
        options = _only("POST", request, user)
        eviction = await self._admitted(target, _body(request, *_EVICTION), options)
        await evict(self._registry, target, eviction, options)
        return _created(_DONE, options)

    async def _log(self, request: Request, target: Target, user: User) -> Answer:
        if request.method != "GET":
            raise method_not_allowed()
        reply = await self._logs.read(self._registry.entry(target).decode(), request)
        if "upgrade" in request.headers and isinstance(reply, StreamReply):
            from kilonova.local.streaming.output import is_websocket_request, log_messages

            if is_websocket_request(request):
                return log_messages(request, reply)
        return reply

    async def _finalize(self, request: Request, target: Target, user: User) -> Answer:
        options = _only("PUT", request, user)
        finalizers = strings(_body(request, "", "v1", "Namespace"), "spec", "finalizers")

        def make(namespace: JsonObject | None) -> JsonObject:
            assert namespace is not None
            spec = {**part(namespace, "spec"), "finalizers": finalizers}
            return {**namespace, "spec": spec if finalizers else {}}

        outcome = await change(self._registry, target, options, make)
        form = wanted(request.headers.get("accept") or "*/*")
        return present_object(self._registry, target.kind, outcome.entry, form, request)

    async def _token(self, request: Request, target: Target, user: User) -> Answer:
        options = _only("POST", request, user)
        account = self._registry.entry(target).decode()
        asked = await self._admitted(target, _body(request, *_TOKEN_REQUEST), options)
        answer = self._tokens.issue(account, asked)
        schema = builtin_schema(*_TOKEN_REQUEST)
        chose_audiences = bool(part(asked, "spec").get("audiences"))
        self._own(
            answer, schema, target, options, _WITHOUT_STATUS if chose_audiences else _AS_ISSUED
        )
        return _created(answer, options)

    async def _review(self, request: Request, target: Target, user: User) -> Answer:
        options = _only("POST", request, user)
        review = decode_body(request.body, request.headers.get("content-type", ""))
        check_identity(target, review, self._registry.catalog.has_kind)
        admit_fields(target, review, None, options)
        review = await self._admitted(target, review, options)
        answer = self._reviews.answer(target, review, user)
        if target.kind.kind != "SelfSubjectRulesReview":  # its question is not in its answer
            self._own(answer, target.kind.schema, target, options)
        return _created(answer, options)

    def _connecting(self, endpoint: Endpoint) -> Endpoint:
        """The endpoint of a connection, opened once those who may refuse it have been asked."""

        async def connect(request: Request, target: Target, user: User) -> Answer:
            options = connect_options(target, request.query)
            asked = copied(options)
            admitted = await self._registry.admission.connect(target, user, asked, [])
            if admitted != options:
                request = replace(request, query=connect_query(admitted, request.query))
            return await endpoint(request, target, user)

        return connect

    async def _admitted(self, target: Target, obj: JsonObject, options: WriteOptions) -> JsonObject:
        """What was sent, after those who may change or refuse it have seen it."""
        return await self._registry.admission.admit(
            Attributes(
                "CREATE",
                target,
                options.user,
                obj,
                None,
                options.dry_run,
                options.warnings,
                partial(options.described, "CreateOptions"),
            )
        )

    def _own(
        self,
        answer: JsonObject,
        schema: Schema,
        target: Target,
        options: WriteOptions,
        ignored: Filter = _WITHOUT_STATUS,
    ) -> None:
        """Record who asked, as for an object that is stored."""
        record_update(
            None,
            answer,
            schema,
            manager=options.manager,
            api_version=answer["apiVersion"],
            time=rfc3339(self._registry.clock.now()),
            subresource=target.subresource,
            ignored=ignored,
        )


def _only(method: str, request: Request, user: User) -> WriteOptions:
    if request.method != method:
        raise method_not_allowed()
    return write_options(request, user, "CreateOptions" if method == "POST" else "UpdateOptions")


def _body(request: Request, group: str, version: str, kind: str) -> JsonObject:
    """The body as an object of a built-in kind; 400 where it has fields of other types."""
    api_version = f"{group}/{version}" if group else version
    obj = decode_body(request.body, request.headers.get("content-type", ""), api_version, kind)
    return _admitted(obj, group, version, kind)


def _admitted(obj: Any, group: str, version: str, kind: str) -> JsonObject:
    checker(builtin_schema(group, version, kind)).admit(obj, kind, version)
    return obj


def _created(obj: JsonObject, options: WriteOptions) -> Reply:
    answer = Reply(201, encode(obj), {"content-type": "application/json"})
    add_warnings(answer, options.warnings)
    return answer
