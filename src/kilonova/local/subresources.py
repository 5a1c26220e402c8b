"""Endpoints that are not plain objects: scale, binding, eviction, tokens, reviews, logs."""

from collections.abc import Awaitable, Callable
from typing import Any

from kilonova.api.json import JsonObject
from kilonova.kube.transport import Reply, Request, StreamReply
from kilonova.local.apply import Filter, ignoring, record_update
from kilonova.local.auth import User
from kilonova.local.errors import method_not_allowed
from kilonova.local.kinds.base import Kind
from kilonova.local.kinds.walk import part, strings
from kilonova.local.kubelets import Kubelets
from kilonova.local.logs import PodLogs
from kilonova.local.negotiation import decode_body, wanted
from kilonova.local.presentation import document, present_object
from kilonova.local.registry.checks import admit_fields, check_identity
from kilonova.local.registry.core import Registry
from kilonova.local.registry.objects import encode, shown
from kilonova.local.registry.options import WriteOptions, write_options
from kilonova.local.registry.patches import patch_type, patching_as
from kilonova.local.registry.pods import bind, evict
from kilonova.local.registry.scale import rescaling, scale_of
from kilonova.local.registry.writes import Make, change, replacement
from kilonova.local.reviews import Reviews
from kilonova.local.routes import Target
from kilonova.local.schema.builtin import builtin_schema
from kilonova.local.schema.check import checker
from kilonova.local.schema.node import Schema
from kilonova.local.times import rfc3339
from kilonova.local.tokens import TokenRequests

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
        self._endpoints: dict[tuple[str, str, str], Endpoint] = {
            ("", "pods", "binding"): self._bind,
            ("", "pods", "eviction"): self._evict,
            ("", "pods", "log"): self._log,
            ("", "bindings", ""): self._bind_by_name,
            ("", "namespaces", "finalize"): self._finalize,
            ("", "serviceaccounts", "token"): self._token,
        }

    def find(self, target: Target) -> Endpoint | None:
        kind = target.kind
        if target.subresource == "scale":
            return self._scale
        if self._reviews.handles(kind):
            return self._review
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
        outcome = await change(self._registry, target, options, rescaling(target, make_scale))
        return document(scale_of(target.kind, shown(target.kind, outcome.entry)), form)

    async def _bind(self, request: Request, target: Target, user: User) -> Answer:
        options = _only("POST", request, user)
        await bind(self._registry, target, _body(request, *_BINDING), options)
        return _created(_DONE)

    async def _bind_by_name(self, request: Request, target: Target, user: User) -> Answer:
        options = _only("POST", request, user)
        binding = _body(request, *_BINDING)
        pods = self._registry.catalog.find("", "v1", "pods")
        assert pods is not None
        name = part(binding, "metadata").get("name", "")
        await bind(
            self._registry, Target(pods, target.namespace, name, "binding"), binding, options
        )
        return _created(_DONE)

    async def _evict(self, request: Request, target: Target, user: User) -> Answer:
        options = _only("POST", request, user)
        await evict(self._registry, target, _body(request, *_EVICTION), options)
        return _created(_DONE)

    async def _log(self, request: Request, target: Target, user: User) -> Answer:
        if request.method != "GET":
            raise method_not_allowed()
        return await self._logs.read(self._registry.entry(target).decode(), request)

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
        asked = _body(request, *_TOKEN_REQUEST)
        answer = self._tokens.issue(account, asked)
        schema = builtin_schema(*_TOKEN_REQUEST)
        chose_audiences = bool(part(asked, "spec").get("audiences"))
        self._own(
            answer, schema, target, options, _WITHOUT_STATUS if chose_audiences else _AS_ISSUED
        )
        return _created(answer)

    async def _review(self, request: Request, target: Target, user: User) -> Answer:
        options = _only("POST", request, user)
        review = decode_body(request.body, request.headers.get("content-type", ""))
        check_identity(target, review, self._registry.catalog.has_kind)
        admit_fields(target.kind, review, None, options)
        answer = self._reviews.answer(target, review, user)
        if target.kind.kind != "SelfSubjectRulesReview":  # its question is not in its answer
            self._own(answer, target.kind.schema, target, options)
        return _created(answer)

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


def without_unserved(kind: Kind) -> Kind:
    """Take from a built-in kind the subresources that need a node's own server."""
    for name in ("exec", "attach", "portforward", "proxy"):
        kind.subresources.pop(name, None)
    return kind


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


def _created(obj: JsonObject) -> Reply:
    return Reply(201, encode(obj), {"content-type": "application/json"})
