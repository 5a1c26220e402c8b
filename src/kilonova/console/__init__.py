"""The web page on a cluster, and the API behind it.

- An **object** is what the API server holds, decoded to the fields that are shown (`objects`).
- A **row** is what the page shows of one object: plain values, whole, under an **id** that is
  unique in its table: `name`, or `namespace/name` (`rows`). What an object looks like as a row is
  a pure function (`noderows`, `podrows`, …), which commands use as well.
- A **table** is a name, the resource whose objects it shows, and that function (`tables`). Rooms
  add tables of their own.
- A **feed** follows the store of one table and tells its followers which rows changed. It does
  nothing at all while it has none.
- A **viewer** is one open page. It gets every table complete, then the rows that change.
- The **gate** lets in who has the token.
- An **action** changes something: scale, cordon, drain, delete. They are refused unless the
  console was started with them.
"""

from kilonova.console.doors import Explain, Explained
from kilonova.console.server import Console, ConsoleSettings, build_console
from kilonova.console.tables import TABLES, Table

__all__ = [
    "TABLES",
    "Console",
    "ConsoleSettings",
    "Explain",
    "Explained",
    "Table",
    "build_console",
]
