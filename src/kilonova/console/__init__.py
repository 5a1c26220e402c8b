"""The web console: a page that shows a cluster, and the HTTP API behind it.

- An **object** is an API object, decoded to the fields that are shown (`objects`).
- A **row** is what the page shows of one object: plain values under an **id** that is unique in
  its table: `name`, or `namespace/name` (`rows`). Rows are computed by pure functions
  (`rows.nodes`, `rows.pods`, …), which the commands use as well.
- A **table** is a name, a resource and the function that computes its rows.
- A **contribution** is what one component adds to the console: tables, pages, detail sections,
  actions, search targets, series (`kilonova.component.console`). The console's own is `core`.
- A **feed** is a live table: it handles the events of an informer's store and sends changed rows
  to its followers (`feeds`). It handles no events while it has no followers.
- A **viewer** is one open page. It receives every table completely, then the rows that change.
- An **action** changes an object: scale, cordon, drain, delete. Actions are
  rejected unless the console was started with `--allow-actions`.

Requests are authenticated by a token (`web.token_auth`). The entry point is `build_console`.
"""

from kilonova.console.server import Console, ConsoleSettings, build_console
from kilonova.console.web.handlers import Explain, Explained

__all__ = [
    "Console",
    "ConsoleSettings",
    "Explain",
    "Explained",
    "build_console",
]
