"""Components: how a part of Kilonova makes itself known to the command line, `up` and the console.

- A **component** is a part of Kilonova with controllers or a server of its own, such as the
  scheduler. Its package has one **registration**: a file `component.py` whose `COMPONENTS` are
  `Component` values (`registration`).
- The **registry** finds registrations: those of every package of Kilonova, and those of modules
  that the environment variable `KILONOVA_COMPONENTS` names (`registry`). There is no list to edit.
- A registration names code by **reference**, `"package.module:attribute"`, which is imported when
  it is needed (`references`): the command line reads all registrations, and runs one command.
- An **embedded component** runs inside of `kilonova up` (`embedded`); a **process** is a component
  on any cluster, by `kilonova run` (`process`). A component is **degraded** from a failure until it
  has run without one for a minute (`health`).
- A **child process** is a program that a component runs, such as a proxy (`child`).
- `definitions` are the CRDs that components need, `command` is what their commands share, `console`
  what they contribute to the console, `finding` what they report to `kilonova doctor`.

This module imports only what reading registrations takes.
"""

from kilonova.component.registration import (
    Command,
    Component,
    DocsPage,
    EmbeddedPart,
    Flag,
    FlagValue,
    ProcessPart,
)
from kilonova.component.registry import find_components

__all__ = [
    "Command",
    "Component",
    "DocsPage",
    "EmbeddedPart",
    "Flag",
    "FlagValue",
    "ProcessPart",
    "find_components",
]
