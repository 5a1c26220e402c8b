"""Admission of instances, deployments and releases: defaults and validation beyond the CRD schemas.

- `defaults`: how a deployment is updated, written into the object.
- `engine` has the rules of what an instance is made from, `validation` those of the kinds: field
  errors with path, value and fix, and warnings. Pure. What depends on the capacity of the cluster
  is not rejected here, but reported by the controllers: nodes come and go.
- `webhooks` declares the webhooks, `handlers` handles their requests. On a Kubernetes cluster the
  component's process serves and registers them (`build_webhook_set`); the embedded cluster calls
  the same handlers in process.
"""

from kilonova.instances.admission.handlers import build_handlers, build_webhook_set
from kilonova.instances.admission.webhooks import CONFIGURATION_NAME, list_webhooks

__all__ = ["CONFIGURATION_NAME", "build_handlers", "build_webhook_set", "list_webhooks"]
