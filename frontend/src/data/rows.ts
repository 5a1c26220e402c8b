/** Rows of the tables, as the server sends them. Generated from src/kilonova/console/rows/model.py by tools/frontend/rows.py: do not edit. */

/** Amounts by resource name, e.g. {"nvidia.com/gpu": 8}; bytes for memory. */
export type Amounts = Record<string, number>;

/** A MIG instance that exists on a device, from its first memory slice. */
export interface MigInstance {
  uuid: string;
  profile: string;
  start?: number;
}

/** One device of a node; unset fields default to the node's. */
export interface Gpu {
  uuid?: string;
  product?: string;
  memory?: number;
  architecture?: string;
  port?: number;
  mig?: string;
  numa?: number;
  /** Name of its PCIe switch. */
  pcie?: string;
  healthy?: boolean;
  /** Its PCI address. */
  pci?: string;
  sms?: number;
  migEnabled?: boolean;
  instances?: MigInstance[];
  /** Why it is unhealthy. */
  reason?: string;
  /** Why pods get MIG instances of it only. */
  withheld?: string;
}

/** A node. Its id is its name. */
export interface NodeRow {
  id: string;
  ready: boolean;
  /** Whether its kubelet does not report. */
  unknown?: boolean;
  /** `Ready`, `NotReady` or `Unknown`, and further states: `Ready,GPULost,Cordoned`. Computed. */
  state: string;
  /** Allocatable CPU cores. */
  cpu: number;
  /** Allocatable memory in bytes. */
  memory: number;
  zone?: string;
  block?: string;
  rack?: string;
  /** `sim` or `process`; empty for a node of another cluster. */
  kind?: string;
  product?: string;
  /** The NVLink domain. */
  nvlinkDomain?: string;
  /** The interconnect of its GPUs: `NVSwitch` or `NVLink`. */
  fabric?: string;
  gpus?: number;
  /** Memory of one GPU in MiB. */
  gpuMemory?: number;
  /** Streaming multiprocessors of one GPU. */
  gpuSms?: number;
  /** Whether MIG instances may be created on its GPUs. */
  mig?: boolean;
  /** What its agent publishes of each GPU; what a GPU does not set is that of the node. */
  devices?: Gpu[];
  /** Indices of GPUs that are not healthy. */
  lost?: number[];
  cordoned?: boolean;
  /** Why it is not ready, pressure conditions, lost GPUs. */
  problem?: string;
  taints?: string[];
  maxPods?: number;
  /** The machine type. */
  machine?: string;
  /** USD per GPU and hour. */
  price?: number;
  /** USD per hour of the node, with its GPUs. */
  nodePrice?: number;
  created?: number;
}

/** A pod. Its id is `namespace/name`. */
export interface PodRow {
  id: string;
  phase: string;
  /** As the STATUS column of `kubectl get pods`. */
  state: string;
  /** Its top-level controller: `PodCliqueSet/default/disagg`, `Job/team/train`. */
  workload: string;
  node?: string;
  ready?: boolean;
  reason?: string;
  message?: string;
  /** The id of its PodGang. */
  gang?: string;
  /** The id of its PodCliqueSet. */
  set?: string;
  /** The id of its PodClique. */
  clique?: string;
  /** Empty for the default queue. */
  queue?: string;
  /** Its `schedulerName`. */
  scheduler?: string;
  gpus?: number;
  /** Index and share, 0 to 1, of each allocated device. */
  devices?: [number, number][];
  /** MIG instances among them: index of the device, profile, first memory slice. */
  migInstances?: [number, string, number][];
  /** Allocated GPUs, with shares of devices: 0 before it is bound and after it has finished. Computed. */
  allocatedGpus?: number;
  /** Whether it failed or cannot start. Computed. */
  failing?: boolean;
  cpu?: number;
  memory?: number;
  restarts?: number;
  created?: number;
  scheduled?: number;
  started?: number;
  readyAt?: number;
  finished?: number;
}

/** A pod group of a gang, with the ids of its pods. */
export interface GangGroup {
  name: string;
  min: number;
  pods: string[];
}

/** A PodGang. Its id is `namespace/name`. */
export interface GangRow {
  id: string;
  phase: string;
  groups: GangGroup[];
  set?: string;
  queue?: string;
  priority?: string;
  /** Why it is not placed. */
  pendingReason?: string;
  reason?: string;
  score?: number;
  /** The topology label of its required pack constraint. */
  requiredTopology?: string;
  /** The topology label of its preferred pack constraint. */
  preferredTopology?: string;
  /** The id of the base gang that a scaled gang waits for. */
  base?: string;
  created?: number;
  scheduled?: number;
  readyAt?: number;
}

/** A clique of a PodCliqueSet's template. */
export interface SetClique {
  name: string;
  replicas: number;
  min: number;
  role?: string;
  after?: string[];
  /** Of one pod. */
  gpus?: number;
}

/** A PodCliqueSet. Its id is `namespace/name`. */
export interface SetRow {
  id: string;
  replicas: number;
  cliques: SetClique[];
  available?: number;
  scheduled?: number;
  updated?: number;
  startup?: string;
  /** The most recent problem. */
  problem?: string;
  updating?: boolean;
  deleting?: boolean;
  /** The workload of its pods, if that is another object: it is no workload of its own then. */
  workload?: string;
  created?: number;
}

/** A PodClique. Its id is `namespace/name`. */
export interface CliqueRow {
  id: string;
  replicas: number;
  min: number;
  set?: string;
  gang?: string;
  role?: string;
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

/** A Deployment, StatefulSet, Job or GPUWorkload. Its id is `namespace/name`. */
export interface OwnerRow {
  id: string;
  kind: string;
  /** Desired pods; of a Job, desired completions. */
  replicas: number;
  /** The outcome of a finished Job: `Completed` or `Failed`. */
  finished?: string;
  suspended?: boolean;
  updating?: boolean;
  deleting?: boolean;
  /** Whether its rollout makes no progress. */
  stalled?: boolean;
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
  /** The workload of its pods, if that is another object: it is no workload of its own then. */
  workload?: string;
  created?: number;
}

/** An event. Its id is `namespace/name`. */
export interface EventRow {
  id: string;
  type: string;
  reason: string;
  /** The involved object: `Pod/default/x`, `Node/n1`. */
  object: string;
  message: string;
  last: number;
  count?: number;
  first?: number;
  source?: string;
}

/** A queue. Its id is its name. */
export interface QueueRow {
  id: string;
  weight: number;
  ready: boolean;
  /** Whether a scheduler has written its status. */
  observed: boolean;
  parent?: string;
  priority?: number;
  deserved?: Amounts;
  limit?: Amounts;
  used?: Amounts;
  requested?: Amounts;
  fairShare?: Amounts;
  pendingGangs?: number;
  /** How to fix it while it is not ready. */
  message?: string;
  created?: number;
}

/** A workload. Its id is `Kind/namespace/name`. */
export interface WorkloadRow {
  id: string;
  state: string;
  /** Desired pods. */
  pods?: number;
  /** Pods that are ready or have succeeded. */
  ready?: number;
  /** Requested GPUs; for shares of devices, the allocated ones. */
  gpus?: number;
  queue?: string;
  /** Why it is not in its desired state. */
  why?: string;
  created?: number;
}

/** Usage of a node: shares, 0 to 1, of its allocatable resources. Its id is the node's name. */
export interface UsageRow {
  id: string;
  cpu: number;
  memory: number;
}

/** What is measured of one MIG instance; None is unknown. */
export interface InstanceReading {
  profile: string;
  start?: number;
  utilisation?: number;
  /** Memory in use, in MiB. */
  memory?: number;
}

/** What is measured of one device; None is unknown. */
export interface GpuReading {
  index: number;
  /** The share of time in which it was busy, 0 to 1. */
  utilisation?: number;
  /** Memory in use, in MiB. */
  memory?: number;
  /** In watts. */
  power?: number;
  /** In degrees Celsius. */
  temperature?: number;
  instances?: InstanceReading[];
}

/** Live metrics of a node's GPUs, where they exist. Its id is the node's name. */
export interface GpuMetricsRow {
  id: string;
  /** Of those GPUs that are measured. */
  gpus: GpuReading[];
}

/** The row type of each table. */
export interface Rows {
  nodes: NodeRow;
  pods: PodRow;
  gangs: GangRow;
  sets: SetRow;
  cliques: CliqueRow;
  deployments: OwnerRow;
  statefulsets: OwnerRow;
  jobs: OwnerRow;
  gpuworkloads: OwnerRow;
  events: EventRow;
  queues: QueueRow;
  workloads: WorkloadRow;
  usage: UsageRow;
  gpumetrics: GpuMetricsRow;
}

export type TableName = keyof Rows;
