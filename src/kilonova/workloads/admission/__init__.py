"""Admission of PodCliqueSets and ClusterTopologyBindings: defaults, validation and an authorizer.

- `defaults`: default values that the CRD schema cannot express.
- `validation`: `validate_create`, `validate_update` and `validate_topology` return field errors,
  each with path, value and rule, and warnings. All pure.
- `authorizer`, off by default: rejects changes by users to objects that the operator manages.
- `webhooks` declares the webhooks, `handlers` serves them. On a Kubernetes cluster
  `kube.admission.AdmissionServer` serves them and `install_webhooks` registers them; the embedded
  cluster calls the same handlers in process.

PodCliques, scaling groups and gangs that users write themselves are validated only by their CRD
schemas.
"""

from kilonova.kube.admission.field_errors import ValidationResult
from kilonova.kube.admission.registration import WebhookDefinition, WebhookRule
from kilonova.workloads.admission.defaults import apply_defaults
from kilonova.workloads.admission.handlers import build_handlers
from kilonova.workloads.admission.registration import (
    CONFIGURATION_NAME,
    ServiceEndpoint,
    UrlEndpoint,
    WebhookEndpoint,
    build_configurations,
    install_webhooks,
)
from kilonova.workloads.admission.validation.clustertopology import validate_topology
from kilonova.workloads.admission.validation.podcliqueset import (
    ValidationContext,
    validate_create,
    validate_update,
)
from kilonova.workloads.admission.webhooks import list_webhooks

__all__ = [
    "CONFIGURATION_NAME",
    "ServiceEndpoint",
    "UrlEndpoint",
    "ValidationContext",
    "ValidationResult",
    "WebhookDefinition",
    "WebhookEndpoint",
    "WebhookRule",
    "apply_defaults",
    "build_configurations",
    "build_handlers",
    "install_webhooks",
    "list_webhooks",
    "validate_create",
    "validate_topology",
    "validate_update",
]
