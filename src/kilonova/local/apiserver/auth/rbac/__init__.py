"""Role-based access control: rules, roles, bindings, and the privilege escalation check.

A *rule* allows verbs on resources or on paths. A *role* is a list of rules, of a namespace or of
the whole cluster. A *binding* grants a role to *subjects*: users, groups, ServiceAccounts. Rules
only allow; what no rule allows is denied.

`RbacPolicy` indexes the stored roles and bindings. `RbacAuthorizer` decides by it, and caches
decisions for each user until a role or binding changes: a decision is then a look-up or two.
`PrivilegeEscalationCheck` prevents users from granting permissions that they do not have.
"""

from kilonova.local.apiserver.auth.rbac.authorizer import RbacAuthorizer, missing_roles_message
from kilonova.local.apiserver.auth.rbac.policy import RbacPolicy
from kilonova.local.apiserver.auth.rbac.rules import PolicyRule

__all__ = ["PolicyRule", "RbacAuthorizer", "RbacPolicy", "missing_roles_message"]
