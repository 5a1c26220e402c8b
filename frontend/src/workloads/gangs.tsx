/** The gangs of a workload: phase, topology constraints, timeline. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { GangRow, PodRow } from "../data/rows";
import { podsByGang } from "../data/store";
import { number, pluralize, splitId } from "../lib/format";
import { Icon } from "../ui/icons";
import { Section } from "../ui/panel";
import { State } from "../ui/state";
import { gangTone } from "./states";
import { TimelineView } from "./timeline-view";
import { levelName } from "./topology-levels";

/** Each with its timeline; only the first that is not running, else the first, is expanded. */
export function Gangs({ gangs, pods }: { gangs: readonly GangRow[]; pods: readonly PodRow[] }): JSX.Element {
  const sorted = [...gangs].sort((one, other) => one.id.localeCompare(other.id, "en", { numeric: true }));
  const [opened] = useState(() => (sorted.find((gang) => gang.phase !== "Running") ?? sorted[0])?.id);
  return (
    <Section
      title={sorted.length === 1 ? "Gang" : "Gangs"}
      aside={sorted.length > 1 ? number(sorted.length) : undefined}
    >
      {sorted.map((gang) => (
        <details key={gang.id} class="gang" open={gang.id === opened}>
          <summary>
            <Icon name="right" size={12} />
            <span class="gang-name">{splitId(gang.id).name}</span>
            <State tone={gangTone(gang)}>{gang.phase || "Pending"}</State>
            <span class="muted gang-words">{describeGang(gang)}</span>
          </summary>
          <TimelineView gang={gang} pods={podsOf(gang, pods)} />
        </details>
      ))}
    </Section>
  );
}

function podsOf(gang: GangRow, pods: readonly PodRow[]): readonly PodRow[] {
  const members = podsByGang.peek(gang.id);
  return members.size
    ? [...members.values()]
    : pods.filter((pod) => gang.groups.some((group) => group.pods.includes(pod.id)));
}

function describeGang(gang: GangRow): string {
  const minimum = gang.groups.reduce((sum, group) => sum + group.min, 0);
  const parts = [`at least ${pluralize(minimum, "pod")}, all or nothing`];
  if (gang.requiredTopology) parts.push(`within one ${levelName(gang.requiredTopology)}`);
  if (gang.preferredTopology) parts.push(`preferably within one ${levelName(gang.preferredTopology)}`);
  if (gang.base) parts.push(`after ${splitId(gang.base).name}`);
  if (gang.priority) parts.push(`priority ${gang.priority}`);
  if (gang.score !== undefined) parts.push(`placement score ${gang.score.toFixed(2)}`);
  return parts.join(", ");
}
