/** What the console's server tells: one row for each object, as src/kilonova/console/rows.py says it. */

/** Amounts by resource name, e.g. {"nvidia.com/gpu": 8}: plain numbers, bytes for memory. */
export type Amounts = Record<string, number>;

/** A node. Its id is its name. */
export interface NodeRow {
  id: string;
  zone?: string;
  block?: string;
  rack?: string;
  /** "sim", "process", or absent for one of a cluster elsewhere. */
  kind?: string;
  product?: string;
  /** NVLink domain. */
  clique?: string;
  fabric?: string;
  gpus?: number;
  /** MiB of one GPU. */
  memory?: number;
  /** Indices of GPUs that are not healthy. */
  lost?: number[];
  ready: boolean;
  /** Its kubelet does not report. */
  unknown?: boolean;
  /** "Ready", "NotReady" or "Unknown", and what else it is: "Ready,GPULost,Cordoned". */
  state: string;
  cordoned?: boolean;
  /** In words: why not ready, pressure, lost GPUs. */
  problem?: string;
  taints?: string[];
  /** Allocatable cores and bytes. */
  cpu: number;
  ram: number;
  maxPods?: number;
  /** USD for an hour of one GPU, list price. */
  price?: number;
  created?: number;
}

/** A pod. Its id is "namespace/name". */
export interface PodRow {
  id: string;
  node?: string;
  phase: string;
  /** As kubectl's STATUS. */
  state: string;
  ready?: boolean;
  reason?: string;
  message?: string;
  /** Ids of its PodGang, PodCliqueSet and PodClique. */
  gang?: string;
  set?: string;
  clique?: string;
  /** Whose it is in people's eyes: "Kind/namespace/name". */
  workload: string;
  /** Absent for "default". */
  queue?: string;
  /** Who is to place it; absent for "default-scheduler". */
  scheduler?: string;
  gpus?: number;
  /** [index, share from 0 to 1] that it was given. */
  devices?: [number, number][];
  /** GPUs that it holds now, parts of devices included. */
  held?: number;
  /** It failed or cannot run, rather than being late. */
  broken?: boolean;
  cpu?: number;
  ram?: number;
  restarts?: number;
  created?: number;
  scheduled?: number;
  started?: number;
  readyAt?: number;
  finished?: number;
}

/** A group of a gang: pods as ids. */
export interface GangGroup {
  name: string;
  min: number;
  pods: string[];
}

/** A PodGang. Its id is "namespace/name". */
export interface GangRow {
  id: string;
  set?: string;
  phase: string;
  groups: GangGroup[];
  queue?: string;
  priority?: string;
  /** Why it has no place, in words. */
  waits?: string;
  reason?: string;
  score?: number;
  /** Topology labels within one value of which it must, or would rather, be placed. */
  pack?: string;
  prefers?: string;
  base?: string;
  created?: number;
  scheduled?: number;
  readyAt?: number;
}

/** A clique as its set's template has it. */
export interface CliqueOfSet {
  name: string;
  role?: string;
  replicas: number;
  min: number;
  after?: string[];
  gpus?: number;
}

/** A PodCliqueSet. Its id is "namespace/name". */
export interface SetRow {
  id: string;
  replicas: number;
  available?: number;
  scheduled?: number;
  updated?: number;
  startup?: string;
  cliques: CliqueOfSet[];
  problem?: string;
  updating?: boolean;
  deleting?: boolean;
  created?: number;
}

/** A PodClique. Its id is "namespace/name". */
export interface CliqueRow {
  id: string;
  set?: string;
  gang?: string;
  role?: string;
  replicas: number;
  min: number;
  ready?: number;
  scheduled?: number;
  created?: number;
}

/** A condition of an object. */
export interface ConditionRow {
  type: string;
  status: string;
  reason?: string;
  message?: string;
  since?: number;
}

/** A Deployment, StatefulSet or Job. Its id is "namespace/name". */
export interface OwnerRow {
  id: string;
  kind: string;
  /** Pods that it should have; of a Job, those that have to succeed. */
  replicas: number;
  /** Of a Job that is decided: "Completed" or "Failed". */
  finished?: string;
  suspended?: boolean;
  updating?: boolean;
  deleting?: boolean;
  stuck?: boolean;
  parallelism?: number;
  ready?: number;
  updated?: number;
  available?: number;
  active?: number;
  succeeded?: number;
  failed?: number;
  /** Of one pod. */
  gpus?: number;
  queue?: string;
  problem?: string;
  conditions?: ConditionRow[];
  created?: number;
}

/** What somebody runs, and how it is. Its id is "Kind/namespace/name". */
export interface WorkloadRow {
  id: string;
  state: string;
  /** Pods that it should have. */
  pods?: number;
  /** Pods that are ready, or have succeeded. */
  ready?: number;
  gpus?: number;
  /** Absent for "default". */
  queue?: string;
  /** Why it is not running as it should. */
  why?: string;
  created?: number;
}

/** A queue. Its id is its name. */
export interface QueueRow {
  id: string;
  parent?: string;
  weight: number;
  priority?: number;
  deserved?: Amounts;
  limit?: Amounts;
  used?: Amounts;
  requested?: Amounts;
  fairShare?: Amounts;
  waiting?: number;
  ready: boolean;
  message?: string;
  /** No scheduler has looked at it. */
  new?: boolean;
  created?: number;
}

/** An event; `object` is "Pod/default/x". */
export interface EventRow {
  id: string;
  type: string;
  reason: string;
  object: string;
  message: string;
  count?: number;
  first?: number;
  last: number;
  source?: string;
}

/** What a node uses: shares from 0 to 1 of what it can give. Its id is the node's name. */
export interface UsageRow {
  id: string;
  cpu: number;
  memory: number;
}

/** The row of each table. */
export interface Rows {
  nodes: NodeRow;
  pods: PodRow;
  gangs: GangRow;
  sets: SetRow;
  cliques: CliqueRow;
  deployments: OwnerRow;
  statefulsets: OwnerRow;
  jobs: OwnerRow;
  queues: QueueRow;
  events: EventRow;
  /** Made of the others, by the server: so commands show the same. */
  workloads: WorkloadRow;
  usage: UsageRow;
}

export type TableName = keyof Rows;

/** A batch of changes of one table; `reset` means that `put` is all there is. */
export interface Change<R> {
  table: string;
  reset?: boolean;
  put?: R[];
  gone?: string[];
  at?: number;
}

/** Why a table cannot be read. */
export interface Trouble {
  table: TableName;
  /** The resource as kubectl calls it. */
  what: string;
  reason: "forbidden" | "unauthorized" | "unreachable" | "refused";
  /** In the words of whoever refused. */
  message: string;
  /** Rows that there are, are as they were then. */
  since: number;
}

/** What the server says first. */
export interface Hello {
  version: string;
  cluster: string;
  actions: boolean;
  /** Those whose pods count in queues. */
  schedulers: string[];
  tables: string[];
  now: number;
}
