/** All that runs or waits, as one list: worked out anew only where something changed. */
import { computed, type ReadonlySignal } from "@preact/signals";
import { apart } from "../format";
import { cliquesBySet, gangsBySet, podsByGang, podsByWorkload, queueOf, tables } from "../store";
import { isOver, stateOf, states, wanted, whyOf, type Parts, type StateName } from "./states";

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
const dirty = new Set<string>();

tables.pods.watch((after, before) => {
  for (const pod of [after, before]) {
    if (!pod) continue;
    dirty.add(pod.workload);
    if (pod.gang && !pod.set) dirty.add(GANG + pod.gang);
  }
});
tables.sets.watch((after, before) => dirty.add(SET + (after ?? before)?.id));
tables.cliques.watch((after, before) => {
  const set = (after ?? before)?.set;
  if (set) dirty.add(SET + set);
});
tables.gangs.watch((after, before) => {
  const gang = after ?? before;
  if (!gang) return;
  if (gang.set) dirty.add(SET + gang.set);
  else {
    dirty.add(GANG + gang.id);
    for (const pod of podsByGang.peek(gang.id).values()) dirty.add(pod.workload);
  }
});

/** All workloads, those that need a look first, then the newest. */
export const workloads: ReadonlySignal<readonly WorkloadRow[]> = computed(() => {
  for (const table of [tables.pods, tables.sets, tables.cliques, tables.gangs]) table.version.value;
  for (const id of dirty) {
    const row = rowOf(id);
    if (row) kept.set(id, row);
    else kept.delete(id);
  }
  dirty.clear();
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
  return { gangs, cliques: [], pods };
}

function rowOf(id: string): WorkloadRow | undefined {
  const parts = partsOf(id);
  const { set, gangs, pods } = parts;
  if (id.startsWith(GANG)) {
    // A gang whose pods are known stands in the list as whatever made them.
    if (!gangs[0] || gangs[0].set || podsByGang.peek(gangs[0].id).size) return undefined;
  } else if (!set && pods.length === 0) return undefined;
  const kind = id.slice(0, id.indexOf("/"));
  const { namespace, name } = apart(id.slice(kind.length + 1));
  const alive = pods.filter((pod) => !isOver(pod));
  const state = stateOf(parts);
  const wantedPods = wanted(parts);
  return {
    id,
    kind,
    namespace,
    name,
    state,
    why: whyOf(parts, state),
    ready: pods.filter((pod) => pod.ready || pod.phase === "Succeeded").length,
    wanted: wantedPods,
    gpus: pods.length ? alive.reduce((total, pod) => total + (pod.gpus ?? 0), 0) : gpusOfTemplate(parts),
    queue: gangs[0] ? queueOf(gangs[0]) : (pods[0]?.queue ?? "default"),
    created: set?.created ?? oldest([...gangs, ...pods]),
  };
}

function gpusOfTemplate({ set }: Parts): number {
  if (!set) return 0;
  return set.replicas * set.cliques.reduce((total, each) => total + each.replicas * (each.gpus ?? 0), 0);
}

function oldest(rows: readonly { created?: number }[]): number | undefined {
  let found: number | undefined;
  for (const { created } of rows) if (created !== undefined && (found === undefined || created < found)) found = created;
  return found;
}
