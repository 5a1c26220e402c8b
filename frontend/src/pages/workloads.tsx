/** Everything that runs or waits, in one list. */
import { useMemo } from "preact/hooks";
import type { JSX } from "preact";
import { counted, exact, number } from "../format";
import { workloadHref } from "../links";
import { narrow } from "../media";
import { below, go, keepingQuery, useQuery } from "../router";
import { Age, Choice, choices, different, Empty, SearchBox, Swatch, Toggle } from "../ui/bits";
import { PageFrame } from "../ui/page";
import { State } from "../ui/state";
import { Table, type Column } from "../ui/table";
import { areKnown, NotThere } from "../ui/unread";
import { WorkloadDetails } from "../workloads/details";
import { workloads, type WorkloadRow } from "../workloads/rows";
import { firstSentence, states, type StateName } from "../workloads/states";

const TABLES = ["pods", "sets", "gangs", "cliques", "deployments", "statefulsets", "jobs"] as const;

const columns: Column<WorkloadRow>[] = [
  { id: "name", title: "Name", width: "20%", sort: (row) => row.name, cell: (row) => <Name row={row} /> },
  { id: "kind", title: "Kind", width: "102px", wideOnly: true, sort: (row) => row.kind, cell: (row) => <span class="muted">{row.kind}</span> },
  { id: "namespace", title: "Namespace", width: "86px", roomyOnly: true, sort: (row) => row.namespace, cell: (row) => <span class="muted" title={row.namespace}>{row.namespace}</span> },
  { id: "state", title: "State", width: "118px", sort: (row) => Object.keys(states).indexOf(row.state), cell: (row) => <State tone={states[row.state]}>{row.state}</State> },
  { id: "pods", title: "Pods", width: "84px", numeric: true, sort: (row) => row.ready / (row.wanted || 1), cell: (row) => <Pods row={row} /> },
  { id: "gpus", title: "GPUs", width: "54px", numeric: true, wideOnly: true, sort: (row) => row.gpus, cell: (row) => (row.gpus ? exact(row.gpus) : <span class="faint">–</span>) },
  { id: "queue", title: "Queue", width: "104px", roomyOnly: true, sort: (row) => row.queue, cell: (row) => <span class={row.queue === "default" ? "faint" : "muted"} title={row.queue}>{row.queue}</span> },
  { id: "age", title: "Age", width: "46px", numeric: true, roomyOnly: true, sort: (row) => -(row.created ?? 0), cell: (row) => <Age since={row.created} /> },
  { id: "why", title: "Why", wideOnly: true, cell: (row) => <span class="clamp muted" title={row.why}>{firstSentence(row.why)}</span> },
];
const besideDetails = columns
  .filter((column) => ["name", "state", "pods"].includes(column.id))
  .map((column) => (column.id === "name" ? { ...column, width: undefined } : column));

/** The list; the details of one are at /workloads/Kind/namespace/name. */
export function Workloads(): JSX.Element {
  const all = workloads.value;
  const [q] = useQuery("q");
  const [namespace] = useQuery("namespace");
  const [state] = useQuery("state");
  const [kind] = useQuery("kind");
  const [gpu] = useQuery("gpu");
  const open = below("/workloads");
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
      summary={areKnown(["workloads"]) && <Summary shown={shown} of={all.length} />}
      filters={
        <>
          <SearchBox label="Filter workloads" />
          {(!selected || gpu) && <Toggle name="gpu" label="GPU workloads only" />}
          {(!selected || state) && <Choice label="State" name="state" options={choices("All states", Object.keys(states).filter((name) => name === state || all.some((row) => row.state === name)))} />}
          {(!selected || kind) && <Choice label="Kind" name="kind" options={choices("All kinds", different(all.map((row) => row.kind)))} />}
          {(!selected || namespace) && <Choice label="Namespace" name="namespace" options={choices("All namespaces", different(all.map((row) => row.namespace)))} />}
        </>
      }
      panel={selected && <WorkloadDetails key={selected} id={selected} onClose={() => go(keepingQuery("/workloads", "pod"))} />}
    >
      <Table
        label="Workloads"
        lines={selected ? 1 : 2}
        rows={shown}
        columns={selected && !narrow.value ? besideDetails : columns}
        selected={selected}
        onOpen={(row) => go(keepingQuery(workloadHref(row.id), "pod"))}
        empty={<Nothing all={all.length} />}
      />
    </PageFrame>
  );
}

function Name({ row }: { row: WorkloadRow }): JSX.Element {
  const link = (
    <a class="cell-line" tabIndex={-1} href={keepingQuery(workloadHref(row.id), "pod")}>
      <Swatch owner={row.id} />
      <span class="ellipsis strong" title={row.name}>{row.name}</span>
    </a>
  );
  if (!narrow.value) return link;
  const more = row.why ? firstSentence(row.why) : `${row.kind} in ${row.namespace}${row.gpus ? `, ${counted(row.gpus, "GPU")}` : ""}`;
  return (
    <div class="two-lines">
      {link}
      <span class="muted">{more}</span>
    </div>
  );
}

function Pods({ row }: { row: WorkloadRow }): JSX.Element {
  return (
    <span title={`${row.ready} of ${row.wanted} pods are ready`}>
      {row.ready}
      <span class="faint">/{row.wanted}</span>
    </span>
  );
}

function Summary({ shown, of }: { shown: readonly WorkloadRow[]; of: number }): JSX.Element {
  const counts = new Map<StateName, number>();
  for (const row of shown) counts.set(row.state, (counts.get(row.state) ?? 0) + 1);
  const waiting = (counts.get("Waiting") ?? 0) + (counts.get("Partial") ?? 0);
  const bad = (counts.get("Failed") ?? 0) + (counts.get("Degraded") ?? 0);
  const many = shown.length === of ? number(of) : `${number(shown.length)} of ${number(of)}`;
  return (
    <>
      {many}
      {waiting > 0 && `, ${number(waiting)} waiting`}
      {bad > 0 && `, ${number(bad)} in trouble`}
    </>
  );
}

function Nothing({ all }: { all: number }): JSX.Element {
  if (all) return <Empty title="No workload is like that">Take a filter away.</Empty>;
  if (!areKnown(["workloads", ...TABLES])) return <NotThere of={TABLES} what="Workloads" />;
  return <Empty title="Nothing runs here yet">Apply a PodCliqueSet, a Job or any pod with kubectl, and it appears.</Empty>;
}

function matches(row: WorkloadRow, q: string): boolean {
  if (!q) return true;
  const text = `${row.id} ${row.queue} ${row.state} ${row.why}`.toLowerCase();
  return q.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}
