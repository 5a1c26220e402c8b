/** The tooltip of the map: node, GPU, and the workloads that hold it. */
import type { JSX } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { number, percent } from "../lib/format";
import { allocationsByOwner, ownerName } from "../nodes/gpu-allocations";
import { allocations, refreshTick } from "../nodes/live-allocations";
import { nodeState } from "../nodes/state";
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
  const state = nodeState(row);
  const reading = target.gpu === undefined ? undefined : node.readings?.get(target.gpu);
  const holders =
    target.gpu === undefined
      ? allocationsByOwner(node)
          .slice(0, 6)
          .map(([owner, gpus]) => ({ owner, note: number(gpus), pod: "" }))
      : (node.gpus[target.gpu] ?? []).map(({ pod, share }) => ({
          owner: pod.workload,
          note: share < 1 ? percent(share) : "",
          pod: pod.id.slice(pod.id.indexOf("/") + 1),
        }));
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
      {target.gpu !== undefined && holders.length === 0 && (
        <p class="muted">{row.lost?.includes(target.gpu) ? "Lost" : "Free"}</p>
      )}
      {state !== "healthy" && <p class="tooltip-problem">{row.problem ?? capitalise(state)}</p>}
    </div>
  );
}
