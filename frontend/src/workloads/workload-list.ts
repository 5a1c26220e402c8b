/** All workloads as one list. */
import { computed, type ReadonlySignal } from "@preact/signals";
import type { OwnerRow, WorkloadRow as WireWorkloadRow } from "../data/rows";
import { cliquesBySet, gangsBySet, podsByWorkload, setsByWorkload, tables } from "../data/store";
import { splitId } from "../lib/format";
import { type StateName, states, type WorkloadParts } from "./states";

/** A workload; its id is "Kind/namespace/name". */
export interface WorkloadRow {
  id: string;
  kind: string;
  namespace: string;
  name: string;
  state: StateName;
  why: string;
  ready: number;
  desired: number;
  gpus: number;
  queue: string;
  created: number | undefined;
}

const SET = "PodCliqueSet/";
const GANG = "PodGang/";
const rowsById = new Map<string, WorkloadRow>();

tables.workloads.watch((after, before) => {
  if (after) rowsById.set(after.id, rowOf(after));
  else if (before) rowsById.delete(before.id);
});

/** All workloads, those that need attention first, then the newest. */
export const workloads: ReadonlySignal<readonly WorkloadRow[]> = computed(() => {
  tables.workloads.version.value;
  return [...rowsById.values()].sort(
    (one, other) =>
      order[one.state] - order[other.state] ||
      (other.created ?? 0) - (one.created ?? 0) ||
      (one.id < other.id ? -1 : 1),
  );
});

const order = Object.fromEntries(Object.keys(states).map((name, at) => [name, at])) as Record<StateName, number>;

/** The objects of a workload. */
export function workloadParts(id: string): WorkloadParts {
  const pods = [...podsByWorkload.peek(id).values()];
  if (id.startsWith(SET)) {
    const set = id.slice(SET.length);
    return {
      set: tables.sets.peek().get(set),
      gangs: [...gangsBySet.peek(set).values()],
      cliques: [...cliquesBySet.peek(set).values()],
      pods,
    };
  }
  const ofSets = [...setsByWorkload.peek(id).keys()].flatMap((set) => [...gangsBySet.peek(set).keys()]);
  const ids = id.startsWith(GANG) ? [id.slice(GANG.length)] : new Set([...pods.map((pod) => pod.gang), ...ofSets]);
  const gangs = [...ids].flatMap((gang) => (gang ? (tables.gangs.peek().get(gang) ?? []) : []));
  return { owner: ownerOf(id), gangs, cliques: [], pods };
}

/** Tables of pod controllers, by kind. */
export const OWNERS = { Deployment: "deployments", StatefulSet: "statefulsets", Job: "jobs" } as const;

function ownerOf(id: string): OwnerRow | undefined {
  const kind = id.slice(0, id.indexOf("/"));
  const table = OWNERS[kind as keyof typeof OWNERS];
  return table && tables[table].peek().get(id.slice(kind.length + 1));
}

function rowOf(row: WireWorkloadRow): WorkloadRow {
  const kind = row.id.slice(0, row.id.indexOf("/"));
  const { namespace, name } = splitId(row.id.slice(kind.length + 1));
  return {
    id: row.id,
    kind,
    namespace,
    name,
    state: row.state in states ? (row.state as StateName) : "Pending",
    why: row.why ?? "",
    ready: row.ready ?? 0,
    desired: row.pods ?? 0,
    gpus: row.gpus ?? 0,
    queue: row.queue ?? "default",
    created: row.created,
  };
}
