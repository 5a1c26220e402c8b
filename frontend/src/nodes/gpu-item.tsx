/** A GPU in the details of its node: the pods that hold it, what identifies it, its health and readings. */
import type { JSX } from "preact";
import { podHref, workloadHref } from "../app/links";
import type { PodRow } from "../data/rows";
import { percent } from "../lib/format";
import { ownerColour } from "../lib/owner-colours";
import { DeletePod } from "../pods/delete-button";
import { Swatch } from "../ui/controls";
import { State } from "../ui/state";
import { allocatedShare, type FleetNode, ownerName } from "./gpu-allocations";
import { deviceOf, deviceText, type HeldInstance, instanceText } from "./gpu-devices";
import { readingText } from "./text";

/** A pod that holds several GPUs has its delete button at the first of them. */
export function GpuItem({ node, index }: { node: FleetNode; index: number }): JSX.Element {
  const holders = node.gpus[index] ?? [];
  const before = node.gpus[index - 1];
  const device = deviceOf(node, index);
  const reading = node.readings?.get(index);
  const holdsInstance = (pod: PodRow) => device.instances.some(({ holder }) => holder?.id === pod.id);
  const isFirst = (pod: PodRow) => !before?.some((holder) => holder.pod.id === pod.id);
  const hardware = deviceText(device);
  return (
    <li class={device.healthy === false ? "gpu lost" : "gpu"} aria-label={`GPU ${index}`}>
      <span class="gpu-index">{index}</span>
      <span class="gpu-bar" role="img" aria-label={`${percent(allocatedShare(holders))} allocated`}>
        {holders.map(({ pod, share }) => (
          <i key={pod.id} style={{ width: `${share * 100}%`, background: ownerColour(pod.workload) }} />
        ))}
      </span>
      <div class="gpu-holders">
        {holders.length === 0 && device.instances.length === 0 && device.healthy !== false && (
          <span class="faint">free</span>
        )}
        {holders
          .filter(({ pod }) => !holdsInstance(pod))
          .map(({ pod, share }) => (
            <span key={pod.id} class="gpu-holder">
              <Holder pod={pod} />
              {share < 1 && <span class="faint">{percent(share)}</span>}
              {isFirst(pod) && <DeletePod pod={pod} />}
            </span>
          ))}
        {device.healthy !== undefined && (
          <span class="gpu-device">
            <State tone={device.healthy ? "good" : "bad"}>{device.healthy ? "Healthy" : "Lost"}</State>
            {hardware && <span class="faint">{hardware}</span>}
          </span>
        )}
        {device.reason && <span class="gpu-reason">{device.reason}</span>}
        {device.uuid && <code class="faint gpu-uuid">{device.uuid}</code>}
        {reading && <span class="faint gpu-reading">{readingText(reading, node.row.gpuMemory)}</span>}
        {device.instances.map((instance) => (
          <Instance key={instanceText(instance)} instance={instance} isFirst={isFirst} />
        ))}
      </div>
    </li>
  );
}

function Instance({ instance, isFirst }: { instance: HeldInstance; isFirst: (pod: PodRow) => boolean }): JSX.Element {
  const { uuid, holder } = instance;
  return (
    <div class="mig-instance">
      <span class="gpu-holder">
        <code title="MIG profile and first memory slice">{instanceText(instance)}</code>
        {holder ? <Holder pod={holder} /> : <span class="faint">free</span>}
        {holder && isFirst(holder) && <DeletePod pod={holder} />}
      </span>
      {uuid ? <code class="faint gpu-uuid">{uuid}</code> : <span class="faint gpu-reading">not created yet</span>}
    </div>
  );
}

function Holder({ pod }: { pod: PodRow }): JSX.Element {
  return (
    <>
      <WorkloadLink workload={pod.workload} />
      <a class="faint ellipsis" href={podHref(pod.id)} title={pod.id}>
        {pod.id.slice(pod.id.indexOf("/") + 1)}
      </a>
    </>
  );
}

export function WorkloadLink({ workload }: { workload: string }): JSX.Element {
  return (
    <a class="owner-link" href={workloadHref(workload)} title={workload}>
      <Swatch owner={workload} />
      {ownerName(workload)}
    </a>
  );
}
