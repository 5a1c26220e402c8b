/** The pods of a workload: state, node, GPUs. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { mayAct } from "../actions";
import { apart, number } from "../format";
import { nodeHref, workloadHref } from "../links";
import { keepingQuery } from "../router";
import type { PodRow } from "../rows";
import { Age } from "../ui/bits";
import { DeletePod } from "../ui/deletepod";
import { Section } from "../ui/panel";
import { State } from "../ui/state";
import { podTone, shortWords } from "./states";

const SHOWN = 50;

/** Those in trouble first; each leads to its containers and logs. */
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
            {mayAct.value && <th><span class="visually-hidden">Actions</span></th>}
          </tr>
        </thead>
        <tbody>
          {sorted.slice(0, all ? undefined : SHOWN).map((pod) => (
            <tr key={pod.id}>
              <td>
                <a class="link" href={hrefOf(pod)}>{apart(pod.id).name}</a>
                {pod.broken && pod.message && <p class="faint">{shortWords(pod.message)}</p>}
              </td>
              <td>
                <State tone={podTone(pod)}>{pod.state}</State>
                {pod.restarts ? <p class="faint">{pod.restarts}× restarted</p> : null}
              </td>
              <td class="nowrap">{pod.node ? <a class="link" href={nodeHref(pod.node)}>{pod.node}</a> : <span class="faint">–</span>}</td>
              <td class="num">{devices(pod)}</td>
              <td class="num wide"><Age since={pod.created} /></td>
              {mayAct.value && <td class="num"><DeletePod pod={pod} /></td>}
            </tr>
          ))}
        </tbody>
      </table>
      {sorted.length > SHOWN && (
        <button type="button" class="link" onClick={() => setAll(!all)}>{all ? "Show fewer" : `Show all ${number(sorted.length)}`}</button>
      )}
    </Section>
  );
}

/** The pod in the list as it is filtered now. */
function hrefOf(pod: PodRow): string {
  const base = keepingQuery(workloadHref(pod.workload), "pod");
  return `${base}${base.includes("?") ? "&" : "?"}pod=${encodeURIComponent(pod.id)}`;
}

function rank(pod: PodRow): number {
  return { bad: 1, warn: 1, wait: 2, busy: 3, good: 4, idle: 5 }[podTone(pod)];
}

/** "4 (0–3)", "½ of 2": how many GPUs, and which of the node. */
function devices(pod: PodRow): JSX.Element | string {
  const given = pod.devices ?? [];
  if (!pod.gpus && given.length === 0) return <span class="faint">–</span>;
  if (given.length === 0) return number(pod.gpus ?? 0);
  const sum = given.reduce((total, [, share]) => total + share, 0);
  return <>{number(Math.round(sum * 100) / 100)} <span class="faint">({ranges(given.map(([index]) => index))})</span></>;
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
