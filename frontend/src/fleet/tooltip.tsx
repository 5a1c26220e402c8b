/** The tooltip of the map: node, GPU, and the workloads that hold it. */
import type { JSX } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import type { PodRow } from "../data/rows";
import { number, percent } from "../lib/format";
import { allocationsByOwner, ownerName } from "../nodes/gpu-allocations";
import { deviceOf, deviceText, type GpuDevice, instanceText } from "../nodes/gpu-devices";
import { allocations, refreshTick } from "../nodes/live-allocations";
import { gpuState, nodeState } from "../nodes/state";
import { capitalise, readingText } from "../nodes/text";
import { Swatch } from "../ui/controls";
import type { HitTarget } from "./layout/hit-test";

export function Tooltip({ target, x, y }: { target: HitTarget; x: number; y: number }): JSX.Element | null {
  refreshTick.value;
  const box = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const element = box.current;
    const around = element?.parentElement;
    if (!element || !around) return;
    const left = Math.max(4, Math.min(x + 14, around.clientWidth - element.offsetWidth - 8));
    const under = y + 18 + element.offsetHeight < around.clientHeight;
    const top = under ? y + 18 : y - element.offsetHeight - 10;
    element.style.transform = `translate(${left}px, ${Math.max(4, top)}px)`;
  });
  const node = allocations.nodes.get(target.node);
  if (!node) return null;
  const { row } = node;
  const state = target.gpu === undefined ? nodeState(row) : gpuState(row, target.gpu);
  const reading = target.gpu === undefined ? undefined : node.readings?.get(target.gpu);
  const device = target.gpu === undefined ? undefined : deviceOf(node, target.gpu);
  const holders =
    target.gpu === undefined
      ? allocationsByOwner(node)
          .slice(0, 6)
          .map(([owner, gpus]) => ({ owner, note: number(gpus), pod: "" }))
      : (node.gpus[target.gpu] ?? []).map(({ pod, share }) => ({
          owner: pod.workload,
          note: heldInstances(device, pod) || (share < 1 ? percent(share) : ""),
          pod: pod.id.slice(pod.id.indexOf("/") + 1),
        }));
  const freeInstances = device?.instances
    .filter(({ holder }) => !holder)
    .map(instanceText)
    .join(", ");
  const problem = state === "healthy" ? "" : device?.reason || (row.problem ?? capitalise(state));
  return (
    <div class="map-tooltip" ref={box} aria-hidden="true">
      <p class="tooltip-title">
        {row.id}
        {target.gpu !== undefined && <span class="tooltip-gpu">GPU {target.gpu}</span>}
      </p>
      <p class="muted">
        {row.product ?? (row.kind === "process" ? "this machine" : "no GPUs")}
        {target.gpu === undefined && row.gpus ? ` · ${number(node.allocated)} of ${row.gpus} allocated` : ""}
      </p>
      {holders.map(({ owner, note, pod }) => (
        <p key={owner + pod} class="tooltip-holder">
          <Swatch owner={owner} />
          <span>
            {ownerName(owner)}
            {pod && pod !== ownerName(owner) && <span class="faint"> {pod}</span>}
          </span>
          <span class="faint">{note}</span>
        </p>
      ))}
      {reading && <p class="tooltip-reading">{readingText(reading, row.gpuMemory)}</p>}
      {device && holders.length === 0 && <p class="muted">{device.healthy === false ? "Lost" : "Free"}</p>}
      {device && (
        <>
          {freeInstances && <p class="muted">Free: {freeInstances}</p>}
          <p class="muted">{deviceText(device)}</p>
          {device.uuid && <code class="tooltip-uuid">{device.uuid}</code>}
        </>
      )}
      {problem && <p class="tooltip-problem">{problem}</p>}
    </div>
  );
}

/** The MIG instances of a device that a pod holds. */
function heldInstances(device: GpuDevice | undefined, pod: PodRow): string {
  const held = device?.instances.filter(({ holder }) => holder?.id === pod.id) ?? [];
  return held.map(instanceText).join(", ");
}
