/** All nodes as a table; a row opens who holds what there. */
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import { cpuRequested } from "../fleet/colouring";
import "../fleet/details.css";
import { NodeDetails } from "../fleet/details";
import { PlaceChoices } from "../fleet/filters";
import { beat, follow, holdings } from "../fleet/follow";
import { type FleetNode } from "../fleet/holdings";
import { nodeState, STATE_TONE, STATES, type State as NodeState } from "../fleet/state";
import { found, shown, view } from "../fleet/view";
import { stateWord } from "../fleet/words";
import { bytes, money, number, percent } from "../format";
import { narrow } from "../media";
import { setQuery, useQuery } from "../router";
import { loaded } from "../store";
import { Age, Choice, Empty, Meter, SearchBox } from "../ui/bits";
import { PageFrame } from "../ui/page";
import { State } from "../ui/state";
import { Table, type Column } from "../ui/table";
import "./nodes.css";

interface Line {
  id: string;
  node: FleetNode;
  version: number;
  state: NodeState;
  cpuAsked: number;
  ramAsked: number;
}

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
      summary={lines.length === size ? number(size) : `${number(lines.length)} of ${number(size)}`}
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
  if (!loaded.value.has("nodes")) return <Empty title="Loading" />;
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

/** Draws a cell once per line: what did not change costs nothing while the table scrolls. */
function drawnOnce(column: Column<Line>): Column<Line> {
  const drawn = new WeakMap<Line, ComponentChildren>();
  return {
    ...column,
    cell: (line) => {
      if (!drawn.has(line)) drawn.set(line, column.cell(line));
      return drawn.get(line);
    },
  };
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

function place({ row }: FleetNode): string {
  return [row.zone, row.block, row.rack].filter(Boolean).join(" / ");
}

function Place({ of: { row } }: { of: FleetNode }): JSX.Element {
  const around = [row.zone, row.block].filter(Boolean).join(" / ");
  return (
    <span class="two-lines node-lines">
      {row.rack && <span>{row.rack}</span>}
      {around && <span class="faint">{around}</span>}
    </span>
  );
}

function Product({ of: { row } }: { of: FleetNode }): JSX.Element {
  if (!row.product) return <span class="faint">{row.kind === "process" ? "this machine" : "–"}</span>;
  return <span title={row.product}>{row.product.replace(/^NVIDIA-/, "")}</span>;
}

/** What is in use as a bar, and what pods asked for as a mark on it; without usage the bar is the latter. */
function Share({ what, asked, used, of }: { what: string; asked: number; used: number | undefined; of: string }): JSX.Element {
  const words = `${what}: ${percent(asked)} of ${of} asked for${used === undefined ? "" : `, ${percent(used)} in use`}`;
  return (
    <span class="node-share">
      <span class="num">{percent(used ?? asked)}</span>
      <Meter share={used ?? asked} label={words} mark={used === undefined || asked === 0 ? undefined : asked} />
    </span>
  );
}

const STATE_OPTIONS = [
  { value: "", title: "All states" },
  ...STATES.map((state) => ({ value: state, title: stateWord(state) })),
];

const COLUMNS = ([
  {
    id: "name", title: "Name", width: "150px", sort: (line) => line.id,
    cell: (line) => <span class="strong" title={line.id}>{line.id}</span>,
  },
  { id: "place", title: "Zone / block / rack", wideOnly: true, sort: (line) => place(line.node), cell: (line) => <Place of={line.node} /> },
  { id: "product", title: "Product", width: "138px", wideOnly: true, sort: (line) => line.node.row.product ?? "", cell: (line) => <Product of={line.node} /> },
  {
    id: "gpus", title: "GPUs held", width: "112px", sort: (line) => line.node.held,
    cell: ({ node }) =>
      node.gpus.length === 0 ? <span class="faint">none</span> : (
        <span class="node-share">
          <span class="num">{number(node.held)} / {node.gpus.length}</span>
          <Meter share={node.held / node.gpus.length} label={`${number(node.held)} of ${node.gpus.length} GPUs held`} />
        </span>
      ),
  },
  {
    id: "cpu", title: "CPU", width: "96px", wideOnly: true, sort: (line) => line.node.usage?.cpu ?? line.cpuAsked,
    cell: ({ node, cpuAsked }) => <Share what="CPU" asked={cpuAsked} used={node.usage?.cpu} of={`${number(node.row.cpu)} cores`} />,
  },
  {
    id: "memory", title: "Memory", width: "96px", wideOnly: true, sort: (line) => line.node.usage?.memory ?? line.ramAsked,
    cell: ({ node, ramAsked }) => <Share what="Memory" asked={ramAsked} used={node.usage?.memory} of={bytes(node.row.ram)} />,
  },
  { id: "pods", title: "Pods", width: "56px", numeric: true, wideOnly: true, sort: (line) => line.node.pods.size, cell: (line) => number(line.node.pods.size) },
  {
    id: "state", title: "State", sort: (line) => STATES.indexOf(line.state),
    cell: ({ node, state }) => (
      <span class="two-lines node-lines" title={node.row.problem}>
        <State tone={STATE_TONE[state]}>{stateWord(state)}</State>
        {node.row.problem && <span class="muted">{node.row.problem}</span>}
      </span>
    ),
  },
  {
    id: "price", title: "USD/h", width: "74px", numeric: true, wideOnly: true, sort: (line) => (line.node.row.price ?? 0) * (line.node.row.gpus ?? 0),
    cell: ({ node: { row } }) => (row.price && row.gpus ? money(row.price * row.gpus) : <span class="faint">–</span>),
  },
  { id: "age", title: "Age", width: "62px", numeric: true, wideOnly: true, sort: (line) => -(line.node.row.created ?? 0), cell: (line) => <Age since={line.node.row.created} /> },
] as Column<Line>[]).map(drawnOnce);

/** What there is room for while details are open. */
const BESIDE_DETAILS = COLUMNS.filter((column) => !column.wideOnly);

/** A phone has the product below the name. */
const ON_PHONE = BESIDE_DETAILS.map((column) => (column.id === "name" ? drawnOnce({ ...column, cell: nameAndProduct }) : column));

function nameAndProduct(line: Line): JSX.Element {
  return (
    <span class="two-lines">
      <span class="strong">{line.id}</span>
      <span class="faint"><Product of={line.node} /></span>
    </span>
  );
}
