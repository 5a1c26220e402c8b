"""Role-based access control: rules, who has them, and what may be given on.

A *rule* allows verbs on resources or on paths. A *role* is a list of rules, of a namespace or of
the whole cluster. A *binding* gives a role to *subjects*: users, groups, ServiceAccounts. Nothing
is ever forbidden by a rule; what no rule allows may not be done.

`Policy` holds roles and bindings as they are stored. `Rbac` decides by it, and keeps what it found
for each user until a role or binding changes: a decision is then a look-up or two. `Escalation`
keeps people from giving out rights that they do not have.
"""

from kilonova.local.auth.rbac.decisions import Rbac, trouble
from kilonova.local.auth.rbac.policy import Policy
from kilonova.local.auth.rbac.rules import Rule

__all__ = ["Policy", "Rbac", "Rule", "trouble"]
