/** What is known of each GPU of a node: its identity, health, and MIG instances with the pods that hold them. */
import type { PodRow } from "../data/rows";
import type { FleetNode } from "./gpu-allocations";

export interface GpuDevice {
  index: number;
  uuid: string | undefined;
  /** The PCI address. */
  pci: string | undefined;
  /** Streaming multiprocessors. */
  sms: number | undefined;
  /** Undefined where MIG is not supported, or nothing is known. */
  migMode: "enabled" | "disabled" | undefined;
  /** Undefined if it is not reported. */
  healthy: boolean | undefined;
  /** Why it is not healthy. */
  reason: string | undefined;
  instances: HeldInstance[];
}

/** A MIG instance that exists, or is assigned to a pod. */
export interface HeldInstance {
  /** Undefined until it has been created. */
  uuid: string | undefined;
  profile: string;
  /** The first memory slice. */
  start: number;
  holder: PodRow | undefined;
}

export function deviceOf(node: FleetNode, index: number): GpuDevice {
  const { row } = node;
  const published = row.devices?.[index];
  const instances = instancesOf(node, index);
  const isEnabled = published?.migEnabled || instances.length > 0;
  const isSupported = published && (published.mig ?? row.mig);
  return {
    index,
    uuid: published?.uuid || undefined,
    pci: published?.pci || undefined,
    sms: published && (published.sms ?? row.gpuSms),
    migMode: isEnabled ? "enabled" : isSupported ? "disabled" : undefined,
    healthy: row.lost?.includes(index) ? false : published && true,
    reason: published?.reason || undefined,
    instances,
  };
}

/** Hardware and MIG mode as text: "0000:18:00.0, 132 SMs, MIG disabled". */
export function deviceText({ pci, sms, migMode }: GpuDevice): string {
  return [pci && `PCI ${pci}`, sms && `${sms} SMs`, migMode && `MIG ${migMode}`].filter(Boolean).join(", ");
}

/** Profile and position of an instance, as in the pod's annotation: "1g.10gb@4". */
export function instanceText({ profile, start }: HeldInstance): string {
  return `${profile}@${start}`;
}

function instancesOf(node: FleetNode, index: number): HeldInstance[] {
  const found = new Map<string, HeldInstance>();
  const add = (instance: HeldInstance) => found.set(instanceText(instance), instance);
  for (const { uuid, profile, start = 0 } of node.row.devices?.[index]?.instances ?? [])
    add({ uuid, profile, start, holder: undefined });
  for (const { pod } of node.gpus[index] ?? []) {
    for (const [device, profile, start] of pod.migInstances ?? []) {
      if (device !== index) continue;
      const uuid = found.get(`${profile}@${start}`)?.uuid;
      add({ uuid, profile, start, holder: pod });
    }
  }
  return [...found.values()].sort((one, other) => one.start - other.start);
}
