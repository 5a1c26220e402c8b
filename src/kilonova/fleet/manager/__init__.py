"""The manager of a fleet (Nebula): decides, while it leads, what every member runs.

One of all managers leads, elected through the fleet's store. Its **pass** reads the reports of the
members and the objects of its **hub** (the API server that people declare Releases, Deployments and
Clusters in), plans (`kilonova.fleet.planning`), and writes in this order: the state of the objects
to the store, what members are to run, and the statuses to the hub. After a crash between any two,
the next pass, of whichever manager, continues.

- `fleet_state`: what the leader has read from and written to the store.
- `hub`: the objects of the hub; `synchronisation` compares them with those saved in the store,
  which may come from the hub of another region.
- `fleet_pass`: one pass; `hub_writer` writes to the hub, which may be away meanwhile.

`build_manager` is the entry point.
"""

from kilonova.fleet.manager.assembly import FleetManager, build_manager
from kilonova.fleet.manager.settings import ManagerSettings

__all__ = ["FleetManager", "ManagerSettings", "build_manager"]
