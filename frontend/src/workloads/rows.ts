/** All that runs or waits, as one list. */
import { computed, type ReadonlySignal } from "@preact/signals";
import { apart } from "../format";
import type { OwnerRow, WorkloadRow as Told } from "../rows";
import { cliquesBySet, gangsBySet, podsByWorkload, tables } from "../store";
import { states, type Parts, type StateName } from "./states";

/** A workload; its id is "Kind/namespace/name". */
export interface WorkloadRow {
  id: string;
  kind: string;
  namespace: string;
  name: string;
  state: StateName;
  why: string;
  ready: number;
  wanted: number;
  gpus: number;
  queue: string;
  created: number | undefined;
}

const SET = "PodCliqueSet/";
const GANG = "PodGang/";
const kept = new Map<string, WorkloadRow>();

tables.workloads.watch((after, before) => {
  if (after) kept.set(after.id, rowOf(after));
  else if (before) kept.delete(before.id);
});

/** All workloads, those that need a look first, then the newest. */
export const workloads: ReadonlySignal<readonly WorkloadRow[]> = computed(() => {
  tables.workloads.version.value;
  return [...kept.values()].sort(
    (one, other) =>
      order[one.state] - order[other.state] ||
      (other.created ?? 0) - (one.created ?? 0) ||
      (one.id < other.id ? -1 : 1),
  );
});

const order = Object.fromEntries(Object.keys(states).map((name, at) => [name, at])) as Record<StateName, number>;

/** What is known of one workload. */
export function partsOf(id: string): Parts {
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
  const ids = id.startsWith(GANG) ? [id.slice(GANG.length)] : new Set(pods.map((pod) => pod.gang));
  const gangs = [...ids].flatMap((gang) => (gang ? (tables.gangs.peek().get(gang) ?? []) : []));
  return { owner: ownerOf(id), gangs, cliques: [], pods };
}

/** The tables of those that make pods, by their kind. */
export const OWNERS = { Deployment: "deployments", StatefulSet: "statefulsets", Job: "jobs" } as const;

function ownerOf(id: string): OwnerRow | undefined {
  const kind = id.slice(0, id.indexOf("/"));
  const table = OWNERS[kind as keyof typeof OWNERS];
  return table && tables[table].peek().get(id.slice(kind.length + 1));
}

function rowOf(told: Told): WorkloadRow {
  const kind = told.id.slice(0, told.id.indexOf("/"));
  const { namespace, name } = apart(told.id.slice(kind.length + 1));
  return {
    id: told.id,
    kind,
    namespace,
    name,
    state: told.state in states ? (told.state as StateName) : "Pending",
    why: told.why ?? "",
    ready: told.ready ?? 0,
    wanted: told.pods ?? 0,
    gpus: told.gpus ?? 0,
    queue: told.queue ?? "default",
    created: told.created,
  };
}
