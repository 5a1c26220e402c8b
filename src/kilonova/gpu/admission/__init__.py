"""Admission of GPUWorkloads and MIGStrategies: defaults and validation beyond the CRD schemas.

- `defaults`: a workload's queue-independent defaults that depend on other fields.
- `validation`: field errors with path, value and fix, and warnings; pure. What depends on the nodes
  of the cluster is not rejected here, but reported by the controllers: nodes come and go.
- `webhooks` declares the webhooks, `handlers` serves them. On a Kubernetes cluster
  `kube.admission.AdmissionServer` serves them and `install_webhooks` registers them; the embedded
  cluster calls the same handlers in process.
"""

from kilonova.gpu.admission.handlers import build_handlers
from kilonova.gpu.admission.webhooks import CONFIGURATION_NAME, install_webhooks, list_webhooks

__all__ = ["CONFIGURATION_NAME", "build_handlers", "install_webhooks", "list_webhooks"]
