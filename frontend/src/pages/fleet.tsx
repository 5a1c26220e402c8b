/** The fleet as a live map: zone, block, rack, node, GPU; choosing a node shows who holds what. */
import { computed } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import "../fleet/details.css";
import { NodeDetails } from "../fleet/details";
import { Figures } from "../fleet/figures";
import { ColourChoice, PlaceChoices } from "../fleet/filters";
import "../fleet/fleet.css";
import { beat, follow, holdings } from "../fleet/follow";
import { Legend } from "../fleet/legend";
import { MapBox } from "../fleet/mapbox";
import { totalsOf } from "../fleet/totals";
import { shown, view } from "../fleet/view";
import { setQuery, useQuery } from "../router";
import { loaded, tables } from "../store";
import { troubles } from "../stream";
import { Empty, SearchBox } from "../ui/bits";
import { PageFrame } from "../ui/page";
import { NotThere } from "../ui/unread";

const TABLES = ["nodes", "pods"] as const;

/** Why there is no map: the cluster has no node at all, or none can be seen. Told only when that changes. */
const without = computed(() => {
  if (loaded.value.has("nodes")) return tables.nodes.all.size === 0 ? "nobody" : undefined;
  return troubles.value.some((trouble) => trouble.table === "nodes") ? "unread" : undefined;
});

export function Fleet(): JSX.Element {
  const [node] = useQuery("node");
  const open = (id: string | undefined) => setQuery({ node: id }, { step: true });
  useEffect(() => follow(() => {}), []);
  return (
    <PageFrame
      title="Fleet"
      tables={TABLES}
      filters={
        <>
          <SearchBox label="Find nodes, workloads" />
          <PlaceChoices />
        </>
      }
      panel={node && <NodeDetails key={node} id={node} onClose={() => open(undefined)} />}
    >
      <div class="fleet">
        <Numbers />
        {without.value === "nobody" && <Empty title="No nodes yet">They appear here as soon as they join the cluster.</Empty>}
        {without.value === "unread" && <NotThere of={TABLES} what="Nodes" />}
        {!without.value && <MapBox selected={node} onOpen={open} />}
      </div>
    </PageFrame>
  );
}

/** Apart from the map, so that numbers that change do not make it render. */
function Numbers(): JSX.Element {
  const at = beat.value;
  const shows = view.value;
  const totals = useMemo(() => {
    const nodes = [...holdings.nodes.values()].filter((node) => shown(node.row, shows));
    return totalsOf(nodes);
  }, [at, shows.zone, shows.product]);
  return (
    <div class="fleet-head">
      <div class="fleet-line">
        <Figures totals={totals} />
        <ColourChoice mode={shows.mode} />
      </div>
      <Legend view={shows} totals={totals} />
    </div>
  );
}
