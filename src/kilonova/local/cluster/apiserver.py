"""The assembly of the API server: kinds, admission, authentication, authorization and handlers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

from kilonova.kube.admission.in_process import InProcessWebhook
from kilonova.kube.serving.health import Health
from kilonova.local.apiserver.admission import (
    AdmissionChain,
    AdmissionContext,
    Plugin,
    WebhookClient,
    default_plugins,
)
from kilonova.local.apiserver.admission.plugins.device_claims import DeviceClaimAuthorization
from kilonova.local.apiserver.auth import (
    Authenticator,
    AuthorizationFilter,
    ServiceAccountTokenIssuer,
    SigningKey,
    StaticTokens,
    discovery_document,
    jwks,
)
from kilonova.local.apiserver.auth.rbac import RbacAuthorizer, RbacPolicy
from kilonova.local.apiserver.auth.rbac.escalation import PrivilegeEscalationCheck
from kilonova.local.apiserver.customresources.crd_handler import CrdHandler
from kilonova.local.apiserver.endpoints.access_reviews import AccessReviews
from kilonova.local.apiserver.endpoints.handlers import ResourceHandler
from kilonova.local.apiserver.endpoints.subresources import SubresourceHandlers
from kilonova.local.apiserver.endpoints.token_requests import TokenRequestHandler, object_exists
from kilonova.local.apiserver.kinds.builtin import builtin_kinds
from kilonova.local.apiserver.metrics_api import metrics_kinds
from kilonova.local.apiserver.registry.context import RegistryContext
from kilonova.local.apiserver.served_kinds import ServedKinds
from kilonova.local.apiserver.server.handler import ApiHandler
from kilonova.local.apiserver.server.metrics import ServerMetrics
from kilonova.local.apiserver.server.non_resource import NonResourceHandler
from kilonova.local.apiserver.service_allocation import ServiceAllocationSync
from kilonova.local.apiserver.storage import RevisionStore
from kilonova.local.clock import Clock, IdGenerator
from kilonova.local.cluster.settings import ClusterSettings
from kilonova.local.kubelet_api import Kubelets

ISSUER = "https://kubernetes.default.svc.cluster.local"


@dataclass(frozen=True, slots=True)
class ApiServerContext:
    """What the API server is built on. `exit_stack` gets what has to be closed with it."""

    settings: ClusterSettings
    store: RevisionStore
    clock: Clock
    id_generator: IdGenerator
    kubelets: Kubelets
    metrics: ServerMetrics
    exit_stack: AsyncExitStack


def build_apiserver(
    context: ApiServerContext,
    key: SigningKey,
    url: str,
    *,
    webhooks: Sequence[InProcessWebhook],
    plugins: Sequence[Plugin],
    is_ready: Callable[[], bool],
) -> tuple[ApiHandler, Authenticator]:
    """The handler of requests, and what authenticates them. `webhooks` are called in process;
    `plugins` are admission plugins beside the default ones."""
    settings, store = context.settings, context.store
    served_kinds = ServedKinds([*builtin_kinds(), *metrics_kinds()])
    definitions = CrdHandler(store, served_kinds, context.clock)
    context.exit_stack.callback(definitions.close)
    ServiceAllocationSync(store, served_kinds, context.id_generator.random, settings.services)
    rbac = RbacAuthorizer(RbacPolicy.from_store(store))
    caller = WebhookClient(store)
    context.exit_stack.push_async_callback(caller.close)
    scope = AdmissionContext(store, served_kinds, rbac)
    chain = [*default_plugins(scope, caller, context.id_generator, webhooks), *plugins]
    claims = DeviceClaimAuthorization(store, rbac)
    admission = AdmissionChain([*chain, definitions, PrivilegeEscalationCheck(rbac), claims])
    registry = RegistryContext(store, served_kinds, context.clock, context.id_generator, admission)

    def exists(kind: str, namespace: str, name: str, uid: str) -> bool:
        return object_exists(registry, kind, namespace, name, uid)

    accounts = ServiceAccountTokenIssuer(
        [key], ISSUER, [ISSUER], exists, context.clock, context.id_generator
    )
    static = StaticTokens.from_csv(settings.token_file.read_text()) if settings.token_file else None
    authenticator = Authenticator(static, accounts)
    subresources = SubresourceHandlers(
        registry,
        TokenRequestHandler(registry, accounts),
        AccessReviews(authenticator, rbac, context.clock),
        context.kubelets,
    )
    published = {
        "/openid/v1/jwks": jwks([key]),
        "/.well-known/openid-configuration": discovery_document(
            ISSUER, url.removeprefix("https://"), [key]
        ),
    }
    health = Health(readiness_in_healthz=True)
    health.add_liveness_check("store", lambda: store.failure and "the store has failed")
    health.add_readiness_check("started", lambda: None if is_ready() else "not started yet")
    documents = NonResourceHandler(served_kinds, health, context.metrics.render, published)
    authorization = AuthorizationFilter(rbac)
    verbs = ResourceHandler(registry, subresources, authorization, context.id_generator.random)
    api = ApiHandler(registry, documents, verbs, authorization, context.metrics)
    return api, authenticator
