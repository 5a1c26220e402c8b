/** The pods of a workload: state, node, GPUs. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { nodeHref, workloadHref } from "../app/links";
import { withQuery } from "../app/router";
import { actionsAllowed } from "../data/actions";
import type { PodRow } from "../data/rows";
import { number, splitId } from "../lib/format";
import { DeletePod } from "../pods/delete-button";
import { Age } from "../ui/controls";
import { Section } from "../ui/panel";
import { State } from "../ui/state";
import { podTone, shortenText } from "./states";

const MAX_SHOWN = 50;

/** Failing pods first; each links to its containers and logs. */
export function Pods({ pods }: { pods: readonly PodRow[] }): JSX.Element | null {
  const [all, setAll] = useState(false);
  if (pods.length === 0) return null;
  const sorted = [...pods].sort((one, other) => rank(one) - rank(other) || (one.id < other.id ? -1 : 1));
  return (
    <Section title="Pods" aside={number(pods.length)}>
      <table class="plain pods">
        <thead>
          <tr>
            <th>Pod</th>
            <th>State</th>
            <th>Node</th>
            <th class="num">GPUs</th>
            <th class="num wide">Age</th>
            {actionsAllowed.value && (
              <th>
                <span class="visually-hidden">Actions</span>
              </th>
            )}
          </tr>
        </thead>
        <tbody>
          {sorted.slice(0, all ? undefined : MAX_SHOWN).map((pod) => (
            <tr key={pod.id}>
              <td>
                <a class="link" href={hrefOf(pod)}>
                  {splitId(pod.id).name}
                </a>
                {pod.failing && pod.message && <p class="faint">{shortenText(pod.message)}</p>}
              </td>
              <td>
                <State tone={podTone(pod)}>{pod.state}</State>
                {pod.restarts ? <p class="faint">{pod.restarts}× restarted</p> : null}
              </td>
              <td class="nowrap">
                {pod.node ? (
                  <a class="link" href={nodeHref(pod.node)}>
                    {pod.node}
                  </a>
                ) : (
                  <span class="faint">–</span>
                )}
              </td>
              <td class="num">{gpuText(pod)}</td>
              <td class="num wide">
                <Age since={pod.created} />
              </td>
              {actionsAllowed.value && (
                <td class="num">
                  <DeletePod pod={pod} />
                </td>
              )}
            </tr>
          ))}
        </tbody>
      </table>
      {sorted.length > MAX_SHOWN && (
        <button type="button" class="link" onClick={() => setAll(!all)}>
          {all ? "Show fewer" : `Show all ${number(sorted.length)}`}
        </button>
      )}
    </Section>
  );
}

/** The address of a pod, with the current filters. */
function hrefOf(pod: PodRow): string {
  const base = withQuery(workloadHref(pod.workload), "pod");
  return `${base}${base.includes("?") ? "&" : "?"}pod=${encodeURIComponent(pod.id)}`;
}

function rank(pod: PodRow): number {
  return { bad: 1, warn: 1, wait: 2, busy: 3, good: 4, idle: 5 }[podTone(pod)];
}

/** "4 (0–3)": the number of GPUs, and their indices on the node. */
function gpuText(pod: PodRow): JSX.Element | string {
  const devices = pod.devices ?? [];
  if (!pod.gpus && devices.length === 0) return <span class="faint">–</span>;
  if (devices.length === 0) return number(pod.gpus ?? 0);
  const sum = devices.reduce((total, [, share]) => total + share, 0);
  return (
    <>
      {number(Math.round(sum * 100) / 100)} <span class="faint">({ranges(devices.map(([index]) => index))})</span>
    </>
  );
}

function ranges(indices: number[]): string {
  const sorted = [...indices].sort((one, other) => one - other);
  const found: [number, number][] = [];
  for (const index of sorted) {
    const last = found.at(-1);
    if (last && last[1] === index - 1) last[1] = index;
    else found.push([index, index]);
  }
  return found.map(([from, to]) => (from === to ? `${from}` : `${from}–${to}`)).join(", ");
}
