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
import { Empty, SearchBox } from "../ui/bits";
import { PageFrame } from "../ui/page";

/** Whether the cluster has no node at all; told only when that changes. */
const nobody = computed(() => loaded.value.has("nodes") && tables.nodes.all.size === 0);

export function Fleet(): JSX.Element {
  const [node] = useQuery("node");
  const open = (id: string | undefined) => setQuery({ node: id }, { step: true });
  useEffect(() => follow(() => {}), []);
  return (
    <PageFrame
      title="Fleet"
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
        {nobody.value ? (
          <Empty title="No nodes yet">They appear here as soon as they join the cluster.</Empty>
        ) : (
          <MapBox selected={node} onOpen={open} />
        )}
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
