"""The webhooks of inference engines: their rules and paths."""

from kilonova.api.inference_engine import GROUP, VERSION
from kilonova.kube.admission.in_process import Operation
from kilonova.kube.admission.registration import WebhookDefinition, WebhookRule

DEFAULTS_PATH = "/webhooks/default-inferenceenginedeployment"
DEPLOYMENT_PATH = "/webhooks/validate-inferenceenginedeployment"
INSTANCE_PATH = "/webhooks/validate-inferenceengineinstance"
RELEASE_PATH = "/webhooks/validate-release"
CONFIGURATION_NAME = "kilonova-instances"
"""The name of both configurations."""

_OPERATIONS: tuple[Operation, ...] = ("CREATE", "UPDATE")


def list_webhooks() -> tuple[WebhookDefinition, ...]:
    """All webhooks."""
    deployments = (_rule("inferenceenginedeployments"),)
    return (
        WebhookDefinition(
            f"default.inferenceenginedeployment.{GROUP}", DEFAULTS_PATH, deployments, True
        ),
        WebhookDefinition(
            f"validate.inferenceenginedeployment.{GROUP}", DEPLOYMENT_PATH, deployments
        ),
        WebhookDefinition(
            f"validate.inferenceengineinstance.{GROUP}",
            INSTANCE_PATH,
            (_rule("inferenceengineinstances"),),
        ),
        WebhookDefinition(f"validate.release.{GROUP}", RELEASE_PATH, (_rule("releases"),)),
    )


def _rule(plural: str) -> WebhookRule:
    return WebhookRule(GROUP, VERSION, (plural,), _OPERATIONS)
