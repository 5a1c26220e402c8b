/** Columns of the table of nodes. */
import type { ComponentChildren, JSX } from "preact";
import { bytes, formatExact, money, number, percent } from "../lib/format";
import { Age, Meter } from "../ui/controls";
import { State } from "../ui/state";
import type { Column } from "../ui/table";
import type { FleetNode } from "./gpu-allocations";
import "./columns.css";
import { type State as NodeState, STATE_TONE, STATES } from "./state";
import { nodeStateText, stateLabel } from "./text";

/** A row of the table; the same object while the node is unchanged. */
export interface NodeTableRow {
  id: string;
  node: FleetNode;
  version: number;
  state: NodeState;
  cpuRequested: number;
  memoryRequested: number;
}

/** Renders a cell once per row object: unchanged rows cost nothing while the table scrolls. */
function cacheCells(column: Column<NodeTableRow>): Column<NodeTableRow> {
  const rendered = new WeakMap<NodeTableRow, ComponentChildren>();
  return {
    ...column,
    cell: (row) => {
      if (!rendered.has(row)) rendered.set(row, column.cell(row));
      return rendered.get(row);
    },
  };
}

function locationPath({ row }: FleetNode): string {
  return [row.zone, row.block, row.rack].filter(Boolean).join(" / ");
}

function Location({ of: { row } }: { of: FleetNode }): JSX.Element {
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

/** Usage as a bar, and requests as a mark on it; without usage metrics the bar shows requests. */
function UsageCell({
  what,
  requested,
  used,
  of,
}: {
  what: string;
  requested: number;
  used: number | undefined;
  of: string;
}): JSX.Element {
  const label = `${what}: ${percent(requested)} of ${of} requested${used === undefined ? "" : `, ${percent(used)} used`}`;
  return (
    <span class="node-share">
      <span class="num">{percent(used ?? requested)}</span>
      <Meter
        share={used ?? requested}
        label={label}
        mark={used === undefined || requested === 0 ? undefined : requested}
      />
    </span>
  );
}

/** Options of the filter by state. */
export const STATE_OPTIONS = [
  { value: "", title: "All states" },
  ...STATES.map((state) => ({ value: state, title: stateLabel(state) })),
];

/** All columns. */
export const COLUMNS = (
  [
    {
      id: "name",
      title: "Name",
      width: "150px",
      sort: (row) => row.id,
      cell: (row) => (
        <span class="strong" title={row.id}>
          {row.id}
        </span>
      ),
    },
    {
      id: "place",
      title: "Zone / block / rack",
      wideOnly: true,
      sort: (row) => locationPath(row.node),
      cell: (row) => <Location of={row.node} />,
    },
    {
      id: "product",
      title: "Product",
      width: "138px",
      wideOnly: true,
      sort: (row) => row.node.row.product ?? "",
      cell: (row) => <Product of={row.node} />,
    },
    {
      id: "gpus",
      title: "GPUs allocated",
      width: "126px",
      sort: (row) => row.node.allocated,
      cell: ({ node }) =>
        node.gpus.length === 0 ? (
          <span class="faint">none</span>
        ) : (
          <span class="node-share">
            <span class="num">
              {formatExact(node.allocated)} / {node.gpus.length}
            </span>
            <Meter
              share={node.allocated / node.gpus.length}
              label={`${formatExact(node.allocated)} of ${node.gpus.length} GPUs allocated`}
            />
          </span>
        ),
    },
    {
      id: "cpu",
      title: "CPU",
      width: "96px",
      wideOnly: true,
      sort: (row) => row.node.usage?.cpu ?? row.cpuRequested,
      cell: ({ node, cpuRequested: cpuAsked }) => (
        <UsageCell what="CPU" requested={cpuAsked} used={node.usage?.cpu} of={`${number(node.row.cpu)} cores`} />
      ),
    },
    {
      id: "memory",
      title: "Memory",
      width: "96px",
      fullWidthOnly: true,
      sort: (row) => row.node.usage?.memory ?? row.memoryRequested,
      cell: ({ node, memoryRequested: requested }) => (
        <UsageCell what="Memory" requested={requested} used={node.usage?.memory} of={bytes(node.row.memory)} />
      ),
    },
    {
      id: "pods",
      title: "Pods",
      width: "56px",
      numeric: true,
      fullWidthOnly: true,
      sort: (row) => row.node.pods.size,
      cell: (row) => number(row.node.pods.size),
    },
    {
      id: "state",
      title: "State",
      sort: (row) => STATES.indexOf(row.state),
      cell: ({ node, state }) => (
        <span class="two-lines node-lines" title={node.row.problem}>
          <State tone={STATE_TONE[state]}>{nodeStateText(node.row)}</State>
          {node.row.problem && <span class="muted">{node.row.problem}</span>}
        </span>
      ),
    },
    {
      id: "price",
      title: "USD/h",
      width: "74px",
      numeric: true,
      fullWidthOnly: true,
      sort: (row) => row.node.row.nodePrice ?? 0,
      cell: ({ node: { row } }) => (row.nodePrice === undefined ? <span class="faint">–</span> : money(row.nodePrice)),
    },
    {
      id: "age",
      title: "Age",
      width: "62px",
      numeric: true,
      fullWidthOnly: true,
      sort: (row) => -(row.node.row.created ?? 0),
      cell: (row) => <Age since={row.node.row.created} />,
    },
  ] as Column<NodeTableRow>[]
).map(cacheCells);

/** Columns shown while the details panel is open. */
export const COMPACT_COLUMNS = COLUMNS.filter((column) => !column.wideOnly && !column.fullWidthOnly);

/** On a phone the product is below the name. */
export const PHONE_COLUMNS = COMPACT_COLUMNS.map((column) =>
  column.id === "name" ? cacheCells({ ...column, cell: nameAndProduct }) : column,
);

function nameAndProduct(row: NodeTableRow): JSX.Element {
  return (
    <span class="two-lines">
      <span class="strong">{row.id}</span>
      <span class="faint">
        <Product of={row.node} />
      </span>
    </span>
  );
}
