/** All nodes as a table; a row opens who holds what there. */
import type { JSX } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import { cpuRequested } from "../fleet/colouring";
import "../fleet/details.css";
import { NodeDetails } from "../fleet/details";
import { PlaceChoices } from "../fleet/filters";
import { beat, follow, holdings } from "../fleet/follow";
import { type FleetNode } from "../fleet/holdings";
import { BESIDE_DETAILS, COLUMNS, ON_PHONE, STATE_OPTIONS, type Line } from "../fleet/nodecolumns";
import { nodeState } from "../fleet/state";
import { found, shown, view } from "../fleet/view";
import { number } from "../format";
import { narrow } from "../media";
import { setQuery, useQuery } from "../router";
import { Choice, Empty, SearchBox } from "../ui/bits";
import { PageFrame } from "../ui/page";
import { Table } from "../ui/table";
import { areKnown, NotThere } from "../ui/unread";

const TABLES = ["nodes", "pods"] as const;
const natural = new Intl.Collator("en", { numeric: true });

export function Nodes(): JSX.Element {
  const [node] = useQuery("node");
  const [state] = useQuery("state");
  const open = (id: string | undefined) => setQuery({ node: id }, { step: true });
  useEffect(() => follow(() => {}), []);
  const at = beat.value;
  const shows = view.value;
  const lines = useMemo(
    () => linesOf((each) => shown(each.row, shows) && (!shows.search || found(each, shows.search)) && (!state || nodeState(each.row) === state)),
    [at, shows, state],
  );
  const { size } = holdings.nodes;
  return (
    <PageFrame
      title="Nodes"
      tables={TABLES}
      summary={areKnown(["nodes"]) && (lines.length === size ? number(size) : `${number(lines.length)} of ${number(size)}`)}
      filters={
        <>
          <SearchBox label="Find nodes" />
          {(!node || state) && <Choice label="State" name="state" options={STATE_OPTIONS} />}
          <PlaceChoices all={!node} />
        </>
      }
      panel={node && <NodeDetails key={node} id={node} onClose={() => open(undefined)} />}
    >
      <Table
        label="Nodes"
        rows={lines}
        columns={narrow.value ? ON_PHONE : node ? BESIDE_DETAILS : COLUMNS}
        selected={node}
        onOpen={(line) => open(line.id)}
        empty={<Nothing filtered={size > 0} />}
      />
    </PageFrame>
  );
}

function Nothing({ filtered }: { filtered: boolean }): JSX.Element {
  if (filtered) return <Empty title="No node matches">Clear the search or the filters to see all nodes.</Empty>;
  if (!areKnown(["nodes"])) return <NotThere of={["nodes"]} what="Nodes" />;
  return <Empty title="No nodes yet">They appear here as soon as they join the cluster.</Empty>;
}

function linesOf(wanted: (node: FleetNode) => boolean): Line[] {
  return inOrder().filter(wanted).map(lineOf);
}

const known = new WeakMap<FleetNode, Line>();

/** The line of a node; the same as before while nothing about the node changed. */
function lineOf(node: FleetNode): Line {
  const before = known.get(node);
  if (before?.version === node.version) return before;
  let ram = 0;
  for (const pod of node.pods.values()) ram += pod.ram ?? 0;
  const line = {
    id: node.row.id, node, version: node.version, state: nodeState(node.row), cpuAsked: cpuRequested(node),
    ramAsked: node.row.ram > 0 ? ram / node.row.ram : 0,
  };
  known.set(node, line);
  return line;
}

let ordered: { shapes: number; nodes: FleetNode[] } = { shapes: -1, nodes: [] };

/** All nodes by name; sorted only when there are others, for names of thousands take a while. */
function inOrder(): FleetNode[] {
  if (ordered.shapes !== holdings.shapes) {
    const nodes = [...holdings.nodes.values()].sort((a, b) => natural.compare(a.row.id, b.row.id));
    ordered = { shapes: holdings.shapes, nodes };
  }
  return ordered.nodes;
}
