"""All webhooks of one kind of configuration, kept equal to what is stored."""

from dataclasses import dataclass

from kilonova.local.admission.chain import Attributes
from kilonova.local.admission.conditions import ConditionsFailed
from kilonova.local.admission.scope import Scope
from kilonova.local.admission.webhooks.configuration import Webhook, read_webhooks
from kilonova.local.errors import forbidden
from kilonova.local.kinds.base import Kind
from kilonova.local.storage import Event, Store

_GROUP = "admissionregistration.k8s.io"


@dataclass(frozen=True, slots=True)
class Call:
    """A webhook that is to be asked, and in which version."""

    webhook: Webhook
    kind: Kind


class WebhookSource:
    """Webhooks in the order in which they are asked: by configuration, then as written.

    Configurations are compiled when the first write after a change needs them. Which webhooks
    can matter to a resource is remembered, so that others cost nothing.
    """

    def __init__(self, store: Store, resource: str, scope: Scope) -> None:
        self._collection = store.collection(resource)
        self._scope = scope
        self._matcher = scope.matcher
        self._compiled: list[Webhook] | None = None
        self._by_resource: dict[tuple[str, str], list[Webhook]] = {}
        store.observe(resource, self._changed)

    def concerned(self, attributes: Attributes) -> list[Webhook]:
        """The webhooks that any write of this kind might be of interest to."""
        if not self._collection.entries or self._scope.is_own(attributes):
            return []
        kind = attributes.target.kind
        key = (kind.group, kind.plural)
        found = self._by_resource.get(key)
        if found is None:
            found = self._by_resource[key] = [
                webhook
                for webhook in self._webhooks()
                if kind.group != _GROUP and self._matcher.may_concern(webhook.criteria, kind)
            ]
        return found

    def call(self, webhook: Webhook, attributes: Attributes) -> Call | None:
        """Whether and how a webhook is to be asked about this write."""
        kind = self._matcher.matched(webhook.criteria, attributes)
        if kind is None:
            return None
        if webhook.conditions is not None and webhook.language is not None:
            values = self._scope.values(webhook.language, attributes, kind)
            try:
                if not webhook.conditions.hold(values):
                    return None
            except ConditionsFailed as failure:
                target = attributes.target.kind
                name = attributes.name
                raise forbidden(target.group, target.plural, name, str(failure)) from None
        return Call(webhook, kind)

    def _webhooks(self) -> list[Webhook]:
        if self._compiled is None:
            self._compiled = [
                webhook
                for entry in self._collection.between("")
                for webhook in read_webhooks(entry.decode())
            ]
        return self._compiled

    def _changed(self, event: Event) -> None:
        del event
        self._compiled = None
        self._by_resource.clear()
