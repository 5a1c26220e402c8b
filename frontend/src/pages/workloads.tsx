/** All workloads, running or pending, in one list. */

import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { workloadHref } from "../app/links";
import { narrow } from "../app/media";
import { navigate, pathBelow, useQuery, withQuery } from "../app/router";
import { formatExact, number, pluralize } from "../lib/format";
import { Age, distinct, Empty, FilterSelect, filterOptions, SearchBox, Swatch, Toggle } from "../ui/controls";
import { PageFrame } from "../ui/page";
import { State } from "../ui/state";
import { type Column, Table } from "../ui/table";
import { areLoaded, NotFoundNotice } from "../ui/table-notices";
import { WorkloadDetails } from "../workloads/details";
import { firstSentence, type StateName, states } from "../workloads/states";
import { type WorkloadRow, workloads } from "../workloads/workload-list";

const TABLES = ["pods", "sets", "gangs", "cliques", "deployments", "statefulsets", "jobs"] as const;

const columns: Column<WorkloadRow>[] = [
  { id: "name", title: "Name", width: "20%", sort: (row) => row.name, cell: (row) => <Name row={row} /> },
  {
    id: "kind",
    title: "Kind",
    width: "102px",
    wideOnly: true,
    sort: (row) => row.kind,
    cell: (row) => <span class="muted">{row.kind}</span>,
  },
  {
    id: "namespace",
    title: "Namespace",
    width: "86px",
    fullWidthOnly: true,
    sort: (row) => row.namespace,
    cell: (row) => (
      <span class="muted" title={row.namespace}>
        {row.namespace}
      </span>
    ),
  },
  {
    id: "state",
    title: "State",
    width: "118px",
    sort: (row) => Object.keys(states).indexOf(row.state),
    cell: (row) => <State tone={states[row.state]}>{row.state}</State>,
  },
  {
    id: "pods",
    title: "Pods",
    width: "84px",
    numeric: true,
    sort: (row) => row.ready / (row.desired || 1),
    cell: (row) => <Pods row={row} />,
  },
  {
    id: "gpus",
    title: "GPUs",
    width: "54px",
    numeric: true,
    wideOnly: true,
    sort: (row) => row.gpus,
    cell: (row) => (row.gpus ? formatExact(row.gpus) : <span class="faint">–</span>),
  },
  {
    id: "queue",
    title: "Queue",
    width: "104px",
    fullWidthOnly: true,
    sort: (row) => row.queue,
    cell: (row) => (
      <span class={row.queue === "default" ? "faint" : "muted"} title={row.queue}>
        {row.queue}
      </span>
    ),
  },
  {
    id: "age",
    title: "Age",
    width: "46px",
    numeric: true,
    fullWidthOnly: true,
    sort: (row) => -(row.created ?? 0),
    cell: (row) => <Age since={row.created} />,
  },
  {
    id: "why",
    title: "Why",
    wideOnly: true,
    cell: (row) => (
      <span class="clamp muted" title={row.why}>
        {firstSentence(row.why)}
      </span>
    ),
  },
];
const compactColumns = columns
  .filter((column) => ["name", "state", "pods"].includes(column.id))
  .map((column) => (column.id === "name" ? { ...column, width: undefined } : column));

/** The list; the details of a workload are at /workloads/Kind/namespace/name. */
export default function Workloads(): JSX.Element {
  const all = workloads.value;
  const [q] = useQuery("q");
  const [namespace] = useQuery("namespace");
  const [state] = useQuery("state");
  const [kind] = useQuery("kind");
  const [gpu] = useQuery("gpu");
  const open = pathBelow("/workloads");
  const selected = open.length === 3 ? open.join("/") : undefined;
  const shown = useMemo(
    () =>
      all.filter(
        (row) =>
          (!namespace || row.namespace === namespace) &&
          (!state || row.state === state) &&
          (!kind || row.kind === kind) &&
          (!gpu || row.gpus > 0) &&
          matches(row, q),
      ),
    [all, q, namespace, state, kind, gpu],
  );
  return (
    <PageFrame
      title="Workloads"
      tables={TABLES}
      summary={areLoaded(["workloads"]) && <Summary shown={shown} of={all.length} />}
      filters={
        <>
          <SearchBox label="Filter workloads" />
          {(!selected || gpu) && <Toggle name="gpu" label="GPU workloads only" />}
          {(!selected || state) && (
            <FilterSelect
              label="State"
              name="state"
              options={filterOptions(
                "All states",
                Object.keys(states).filter((name) => name === state || all.some((row) => row.state === name)),
              )}
            />
          )}
          {(!selected || kind) && (
            <FilterSelect
              label="Kind"
              name="kind"
              options={filterOptions("All kinds", distinct(all.map((row) => row.kind)))}
            />
          )}
          {(!selected || namespace) && (
            <FilterSelect
              label="Namespace"
              name="namespace"
              options={filterOptions("All namespaces", distinct(all.map((row) => row.namespace)))}
            />
          )}
        </>
      }
      panel={
        selected && (
          <WorkloadDetails key={selected} id={selected} onClose={() => navigate(withQuery("/workloads", "pod"))} />
        )
      }
    >
      <Table
        label="Workloads"
        lines={selected ? 1 : 2}
        rows={shown}
        columns={selected && !narrow.value ? compactColumns : columns}
        selected={selected}
        onOpen={(row) => navigate(withQuery(workloadHref(row.id), "pod"))}
        empty={<NoWorkloads all={all.length} />}
      />
    </PageFrame>
  );
}

function Name({ row }: { row: WorkloadRow }): JSX.Element {
  const link = (
    <a class="cell-line" tabIndex={-1} href={withQuery(workloadHref(row.id), "pod")}>
      <Swatch owner={row.id} />
      <span class="ellipsis strong" title={row.name}>
        {row.name}
      </span>
    </a>
  );
  if (!narrow.value) return link;
  const more = row.why
    ? firstSentence(row.why)
    : `${row.kind} in ${row.namespace}${row.gpus ? `, ${pluralize(row.gpus, "GPU")}` : ""}`;
  return (
    <div class="two-lines">
      {link}
      <span class="muted">{more}</span>
    </div>
  );
}

function Pods({ row }: { row: WorkloadRow }): JSX.Element {
  return (
    <span title={`${row.ready} of ${row.desired} pods are ready`}>
      {row.ready}
      <span class="faint">/{row.desired}</span>
    </span>
  );
}

function Summary({ shown, of }: { shown: readonly WorkloadRow[]; of: number }): JSX.Element {
  const counts = new Map<StateName, number>();
  for (const row of shown) counts.set(row.state, (counts.get(row.state) ?? 0) + 1);
  const pending = (counts.get("Pending") ?? 0) + (counts.get("Partial") ?? 0);
  const bad = (counts.get("Failed") ?? 0) + (counts.get("Degraded") ?? 0);
  const many = shown.length === of ? number(of) : `${number(shown.length)} of ${number(of)}`;
  return (
    <>
      {many}
      {pending > 0 && `, ${number(pending)} pending`}
      {bad > 0 && `, ${number(bad)} failing`}
    </>
  );
}

function NoWorkloads({ all }: { all: number }): JSX.Element {
  if (all) return <Empty title="No matching workloads">Clear a filter to see more.</Empty>;
  if (!areLoaded(["workloads", ...TABLES])) return <NotFoundNotice of={TABLES} what="Workloads" />;
  return <Empty title="No workloads yet">Apply a PodCliqueSet, a Job or any pod with kubectl.</Empty>;
}

function matches(row: WorkloadRow, q: string): boolean {
  if (!q) return true;
  const text = `${row.id} ${row.queue} ${row.state} ${row.why}`.toLowerCase();
  return q
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
}
