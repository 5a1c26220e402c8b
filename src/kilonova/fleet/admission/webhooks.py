"""The webhooks of the fleet's kinds: their rules and paths."""

from kilonova.api.inference_engine import GROUP, VERSION
from kilonova.kube.admission.registration import WebhookDefinition, WebhookRule

DEPLOYMENT_PATH = "/webhooks/validate-global-deployment"
CONFIGURATION_NAME = "kilonova-fleet"
"""The name of the configuration."""


def list_webhooks() -> tuple[WebhookDefinition, ...]:
    """All webhooks."""
    rule = WebhookRule(GROUP, VERSION, ("deployments",), ("CREATE", "UPDATE"))
    return (WebhookDefinition(f"validate.deployment.{GROUP}", DEPLOYMENT_PATH, (rule,)),)
