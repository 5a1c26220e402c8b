/** The fleet as a live map: zone, block, rack, node, GPU; selecting a node opens its details. */
import { computed } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import "../nodes/details.css";
import { SummaryFigures } from "../fleet/summary-figures";
import { NodeDetails } from "../nodes/details";
import { ColourModeSelect, TopologyFilters } from "../nodes/filters";
import "../fleet/fleet.css";
import { setQuery, useQuery } from "../app/router";
import { loaded, tables } from "../data/store";
import { tableErrors } from "../data/stream";
import { Legend } from "../fleet/legend";
import { MapView } from "../fleet/map-view";
import { allocations, refreshTick, subscribe } from "../nodes/live-allocations";
import { totalsOf } from "../nodes/totals";
import { isShown, viewQuery } from "../nodes/view-query";
import { Empty, SearchBox } from "../ui/controls";
import { PageFrame } from "../ui/page";
import { NotFoundNotice } from "../ui/table-notices";

const TABLES = ["nodes", "pods"] as const;

/** Why there is no map: the cluster has no nodes, or they cannot be read. A signal of its own, to render only when it changes. */
const emptyReason = computed(() => {
  if (loaded.value.has("nodes")) return tables.nodes.all.size === 0 ? "no nodes" : undefined;
  return tableErrors.value.some((error) => error.table === "nodes") ? "unreadable" : undefined;
});

export default function Fleet(): JSX.Element {
  const [node] = useQuery("node");
  const open = (id: string | undefined) => setQuery({ node: id }, { step: true });
  useEffect(() => subscribe(() => {}), []);
  return (
    <PageFrame
      title="Fleet"
      tables={TABLES}
      filters={
        <>
          <SearchBox label="Find nodes, workloads" />
          <TopologyFilters />
        </>
      }
      panel={node && <NodeDetails key={node} id={node} onClose={() => open(undefined)} />}
    >
      <div class="fleet">
        <Totals />
        {emptyReason.value === "no nodes" && (
          <Empty title="No nodes yet">Nodes appear here when they join the cluster.</Empty>
        )}
        {emptyReason.value === "unreadable" && <NotFoundNotice of={TABLES} what="Nodes" />}
        {!emptyReason.value && <MapView selected={node} onOpen={open} />}
      </div>
    </PageFrame>
  );
}

/** A component of its own, so that changed totals do not render the map. */
function Totals(): JSX.Element {
  const at = refreshTick.value;
  const query = viewQuery.value;
  const totals = useMemo(() => {
    const nodes = [...allocations.nodes.values()].filter((node) => isShown(node.row, query));
    return totalsOf(nodes);
  }, [at, query.zone, query.product]);
  return (
    <div class="fleet-head">
      <div class="fleet-line">
        <SummaryFigures totals={totals} />
        <ColourModeSelect mode={query.mode} />
      </div>
      <Legend view={query} totals={totals} />
    </div>
  );
}
