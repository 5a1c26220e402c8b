/** What the pointer is on: node, GPU, who holds it. */
import type { JSX } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { number, percent } from "../format";
import { Swatch } from "../ui/bits";
import { beat, holdings } from "./follow";
import type { Spot } from "./hit";
import { ownerName, ownersOf } from "./holdings";
import { nodeState } from "./state";
import { capital } from "./words";

export function Tooltip({ spot, x, y }: { spot: Spot; x: number; y: number }): JSX.Element | null {
  beat.value;
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
  const node = holdings.nodes.get(spot.node);
  if (!node) return null;
  const { row } = node;
  const state = nodeState(row);
  const holders =
    spot.gpu === undefined
      ? ownersOf(node).slice(0, 6).map(([owner, gpus]) => ({ owner, note: number(gpus), pod: "" }))
      : (node.gpus[spot.gpu] ?? []).map(({ pod, share }) => ({
          owner: pod.workload, note: share < 1 ? percent(share) : "", pod: pod.id.slice(pod.id.indexOf("/") + 1),
        }));
  return (
    <div class="map-tooltip" ref={box} aria-hidden="true">
      <p class="tooltip-title">
        {row.id}
        {spot.gpu !== undefined && <span class="tooltip-gpu">GPU {spot.gpu}</span>}
      </p>
      <p class="muted">
        {row.product ?? (row.kind === "process" ? "this machine" : "no GPUs")}
        {spot.gpu === undefined && row.gpus ? ` · ${number(node.held)} of ${row.gpus} held` : ""}
      </p>
      {holders.map(({ owner, note, pod }) => (
        <p key={owner + pod} class="tooltip-holder">
          <Swatch owner={owner} />
          <span>{ownerName(owner)}{pod && pod !== ownerName(owner) && <span class="faint"> {pod}</span>}</span>
          <span class="faint">{note}</span>
        </p>
      ))}
      {spot.gpu !== undefined && holders.length === 0 && <p class="muted">{row.lost?.includes(spot.gpu) ? "Lost" : "Free"}</p>}
      {state !== "healthy" && <p class="tooltip-problem">{row.problem ?? capital(state)}</p>}
    </div>
  );
}
