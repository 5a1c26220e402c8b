/** All nodes as a table; a row opens the node's details. */
import type { JSX } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import { cpuRequested } from "../nodes/cell-colours";
import "../nodes/details.css";
import { narrow } from "../app/media";
import { setQuery, useQuery } from "../app/router";
import { number } from "../lib/format";
import { COLUMNS, COMPACT_COLUMNS, type NodeTableRow, PHONE_COLUMNS, STATE_OPTIONS } from "../nodes/columns";
import { NodeDetails } from "../nodes/details";
import { TopologyFilters } from "../nodes/filters";
import type { FleetNode } from "../nodes/gpu-allocations";
import { allocations, refreshTick, subscribe } from "../nodes/live-allocations";
import { nodeState } from "../nodes/state";
import { isShown, matchesSearch, viewQuery } from "../nodes/view-query";
import { Empty, FilterSelect, SearchBox } from "../ui/controls";
import { PageFrame } from "../ui/page";
import { Table } from "../ui/table";
import { areLoaded, NotFoundNotice } from "../ui/table-notices";

const TABLES = ["nodes", "pods"] as const;
const natural = new Intl.Collator("en", { numeric: true });

export default function Nodes(): JSX.Element {
  const [node] = useQuery("node");
  const [state] = useQuery("state");
  const open = (id: string | undefined) => setQuery({ node: id }, { step: true });
  useEffect(() => subscribe(() => {}), []);
  const at = refreshTick.value;
  const query = viewQuery.value;
  const rows = useMemo(
    () =>
      tableRows(
        (each) =>
          isShown(each.row, query) &&
          (!query.search || matchesSearch(each, query.search)) &&
          (!state || nodeState(each.row) === state),
      ),
    [at, query, state],
  );
  const { size } = allocations.nodes;
  return (
    <PageFrame
      title="Nodes"
      tables={TABLES}
      summary={
        areLoaded(["nodes"]) && (rows.length === size ? number(size) : `${number(rows.length)} of ${number(size)}`)
      }
      filters={
        <>
          <SearchBox label="Find nodes" />
          {(!node || state) && <FilterSelect label="State" name="state" options={STATE_OPTIONS} />}
          <TopologyFilters all={!node} />
        </>
      }
      panel={node && <NodeDetails key={node} id={node} onClose={() => open(undefined)} />}
    >
      <Table
        label="Nodes"
        rows={rows}
        columns={narrow.value ? PHONE_COLUMNS : node ? COMPACT_COLUMNS : COLUMNS}
        selected={node}
        onOpen={(row) => open(row.id)}
        empty={<NoNodes filtered={size > 0} />}
      />
    </PageFrame>
  );
}

function NoNodes({ filtered }: { filtered: boolean }): JSX.Element {
  if (filtered) return <Empty title="No node matches">Clear the search or the filters to see all nodes.</Empty>;
  if (!areLoaded(["nodes"])) return <NotFoundNotice of={["nodes"]} what="Nodes" />;
  return <Empty title="No nodes yet">Nodes appear here when they join the cluster.</Empty>;
}

function tableRows(matches: (node: FleetNode) => boolean): NodeTableRow[] {
  return inOrder().filter(matches).map(tableRow);
}

const known = new WeakMap<FleetNode, NodeTableRow>();

/** The row of a node; the same object while the node is unchanged. */
function tableRow(node: FleetNode): NodeTableRow {
  const before = known.get(node);
  if (before?.version === node.version) return before;
  let requestedMemory = 0;
  for (const pod of node.pods.values()) requestedMemory += pod.memory ?? 0;
  const row = {
    id: node.row.id,
    node,
    version: node.version,
    state: nodeState(node.row),
    cpuRequested: cpuRequested(node),
    memoryRequested: node.row.memory > 0 ? requestedMemory / node.row.memory : 0,
  };
  known.set(node, row);
  return row;
}

let ordered: { version: number; nodes: FleetNode[] } = { version: -1, nodes: [] };

/** All nodes by name; sorted only when nodes were added or removed, since sorting thousands is slow. */
function inOrder(): FleetNode[] {
  if (ordered.version !== allocations.topologyVersion) {
    const nodes = [...allocations.nodes.values()].sort((a, b) => natural.compare(a.row.id, b.row.id));
    ordered = { version: allocations.topologyVersion, nodes };
  }
  return ordered.nodes;
}
