"""What the operator says to an API server before a PodCliqueSet is stored.

- **Defaults**: what is meant where a set says nothing, filled in before anybody else sees it.
- **Rules**: `validate_create` and `validate_update` give *findings*: problems, each with the path
  of its field, the value and the rule, and warnings. All pure.
- The **authorizer**, off unless asked for, keeps hands off what the operator has made.
- **Hooks** say what is asked about, **handlers** answer. On a Kubernetes cluster they are served
  by `kube.admission.AdmissionServer` and made known by `install_webhooks`; an embedded cluster
  calls the same handlers in process.

PodCliques, scaling groups and gangs that people write by hand are held to their schema only.
"""

from kilonova.workloads.admission.configurations import (
    NAME,
    Address,
    AtService,
    AtUrl,
    configurations,
    install_webhooks,
)
from kilonova.workloads.admission.defaults import defaulted
from kilonova.workloads.admission.findings import Findings
from kilonova.workloads.admission.handlers import build_handlers
from kilonova.workloads.admission.hooks import Hook, Interest, hooks_of
from kilonova.workloads.admission.topologies import validate_topology
from kilonova.workloads.admission.validation import Context, validate_create, validate_update

__all__ = [
    "NAME",
    "Address",
    "AtService",
    "AtUrl",
    "Context",
    "Findings",
    "Hook",
    "Interest",
    "build_handlers",
    "configurations",
    "defaulted",
    "hooks_of",
    "install_webhooks",
    "validate_create",
    "validate_topology",
    "validate_update",
]
