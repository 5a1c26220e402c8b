"""All webhooks of one kind of configuration, in sync with the stored configurations."""

from dataclasses import dataclass

from kilonova.local.apimachinery.errors import forbidden
from kilonova.local.apiserver.admission.chain import Attributes
from kilonova.local.apiserver.admission.context import AdmissionContext
from kilonova.local.apiserver.admission.match_conditions import MatchConditionsError
from kilonova.local.apiserver.admission.webhooks.configuration import Webhook, read_webhooks
from kilonova.local.apiserver.kinds.kind import Kind
from kilonova.local.apiserver.storage import RevisionStore, StorageEvent

_GROUP = "admissionregistration.k8s.io"


@dataclass(frozen=True, slots=True)
class WebhookInvocation:
    """A webhook to be called, and the version for it."""

    webhook: Webhook
    kind: Kind


class WebhookSource:
    """Webhooks in the order of their calls: by configuration, then as listed.

    Configurations are compiled when the first write after a change needs them. The webhooks that
    can match a resource are cached, so that others cost nothing.
    """

    def __init__(self, store: RevisionStore, resource: str, context: AdmissionContext) -> None:
        self._collection = store.collection(resource)
        self._context = context
        self._matcher = context.matcher
        self._compiled: list[Webhook] | None = None
        self._by_resource: dict[tuple[str, str], list[Webhook]] = {}
        store.observe(resource, self._on_event)

    def matching_webhooks(self, attributes: Attributes) -> list[Webhook]:
        """The webhooks that can match a write of this kind."""
        if not self._collection.entries or self._context.is_server_request(attributes):
            return []
        kind = attributes.target.kind
        key = (kind.group, kind.plural)
        found = self._by_resource.get(key)
        if found is None:
            found = self._by_resource[key] = [
                webhook
                for webhook in self._all_webhooks()
                if kind.group != _GROUP and self._matcher.may_match(webhook.criteria, kind)
            ]
        return found

    def match(self, webhook: Webhook, attributes: Attributes) -> WebhookInvocation | None:
        """Whether a webhook is called for this write, and in which version."""
        kind = self._matcher.match(webhook.criteria, attributes)
        if kind is None:
            return None
        if webhook.conditions is not None and webhook.compiler is not None:
            values = self._context.bindings(webhook.compiler, attributes, kind)
            try:
                if not webhook.conditions.match(values):
                    return None
            except MatchConditionsError as failure:
                target = attributes.target.kind
                name = attributes.name
                raise forbidden(target.group, target.plural, name, str(failure)) from None
        return WebhookInvocation(webhook, kind)

    def _all_webhooks(self) -> list[Webhook]:
        if self._compiled is None:
            self._compiled = [
                webhook
                for entry in self._collection.range_entries("")
                for webhook in read_webhooks(entry.decode())
            ]
        return self._compiled

    def _on_event(self, event: StorageEvent) -> None:
        del event
        self._compiled = None
        self._by_resource.clear()
