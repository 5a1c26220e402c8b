/** The columns of the table of nodes. */
import type { ComponentChildren, JSX } from "preact";
import { bytes, exact, money, number, percent } from "../format";
import { Age, Meter } from "../ui/bits";
import { State } from "../ui/state";
import type { Column } from "../ui/table";
import type { FleetNode } from "./holdings";
import "./nodecolumns.css";
import { STATE_TONE, STATES, type State as NodeState } from "./state";
import { stateWord, stateWords } from "./words";

/** A node as the table has it; the same object while nothing about the node changed. */
export interface Line {
  id: string;
  node: FleetNode;
  version: number;
  state: NodeState;
  cpuAsked: number;
  ramAsked: number;
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

/** The choices of the filter by state. */
export const STATE_OPTIONS = [
  { value: "", title: "All states" },
  ...STATES.map((state) => ({ value: state, title: stateWord(state) })),
];

/** All columns. */
export const COLUMNS = ([
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
          <span class="num">{exact(node.held)} / {node.gpus.length}</span>
          <Meter share={node.held / node.gpus.length} label={`${exact(node.held)} of ${node.gpus.length} GPUs held`} />
        </span>
      ),
  },
  {
    id: "cpu", title: "CPU", width: "96px", wideOnly: true, sort: (line) => line.node.usage?.cpu ?? line.cpuAsked,
    cell: ({ node, cpuAsked }) => <Share what="CPU" asked={cpuAsked} used={node.usage?.cpu} of={`${number(node.row.cpu)} cores`} />,
  },
  {
    id: "memory", title: "Memory", width: "96px", roomyOnly: true, sort: (line) => line.node.usage?.memory ?? line.ramAsked,
    cell: ({ node, ramAsked }) => <Share what="Memory" asked={ramAsked} used={node.usage?.memory} of={bytes(node.row.ram)} />,
  },
  { id: "pods", title: "Pods", width: "56px", numeric: true, roomyOnly: true, sort: (line) => line.node.pods.size, cell: (line) => number(line.node.pods.size) },
  {
    id: "state", title: "State", sort: (line) => STATES.indexOf(line.state),
    cell: ({ node, state }) => (
      <span class="two-lines node-lines" title={node.row.problem}>
        <State tone={STATE_TONE[state]}>{stateWords(node.row)}</State>
        {node.row.problem && <span class="muted">{node.row.problem}</span>}
      </span>
    ),
  },
  {
    id: "price", title: "USD/h", width: "74px", numeric: true, roomyOnly: true, sort: (line) => (line.node.row.price ?? 0) * (line.node.row.gpus ?? 0),
    cell: ({ node: { row } }) => (row.price && row.gpus ? money(row.price * row.gpus) : <span class="faint">–</span>),
  },
  { id: "age", title: "Age", width: "62px", numeric: true, roomyOnly: true, sort: (line) => -(line.node.row.created ?? 0), cell: (line) => <Age since={line.node.row.created} /> },
] as Column<Line>[]).map(drawnOnce);

/** What there is room for while details are open. */
export const BESIDE_DETAILS = COLUMNS.filter((column) => !column.wideOnly && !column.roomyOnly);

/** A phone has the product below the name. */
export const ON_PHONE = BESIDE_DETAILS.map((column) => (column.id === "name" ? drawnOnce({ ...column, cell: nameAndProduct }) : column));

function nameAndProduct(line: Line): JSX.Element {
  return (
    <span class="two-lines">
      <span class="strong">{line.id}</span>
      <span class="faint"><Product of={line.node} /></span>
    </span>
  );
}
