"""The webhook of inference services: its rule and path."""

from kilonova.api.serving import GROUP, VERSION
from kilonova.kube.admission.registration import WebhookDefinition, WebhookRule

PATH = "/webhooks/validate-inferenceservice"
CONFIGURATION_NAME = "kilonova-serving"
"""The name of its configuration."""


def list_webhooks() -> tuple[WebhookDefinition, ...]:
    """All webhooks."""
    rule = WebhookRule(GROUP, VERSION, ("inferenceservices",), ("CREATE", "UPDATE"))
    return (WebhookDefinition(f"validate.inferenceservice.{GROUP}", PATH, (rule,)),)
