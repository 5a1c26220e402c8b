"""Admission of GPUWorkloads and MIGStrategies: defaults and validation beyond the CRD schemas.

- `defaults`: defaults of a workload that depend on other fields.
- `validation`: field errors with path, value and fix, and warnings; pure. What depends on the nodes
  of the cluster is not rejected here, but reported by the controllers: nodes come and go.
- `webhooks` declares the webhooks, `handlers` handles their requests. On a Kubernetes cluster the
  operator's process serves and registers them (`build_webhook_set`); the embedded cluster calls the
  same handlers in process.
"""

from kilonova.gpu.admission.handlers import build_handlers, build_webhook_set
from kilonova.gpu.admission.webhooks import CONFIGURATION_NAME, list_webhooks

__all__ = ["CONFIGURATION_NAME", "build_handlers", "build_webhook_set", "list_webhooks"]
