/** The gangs of a workload: phase, where they have to stand, how they came to be ready. */
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { apart, counted, number } from "../format";
import type { GangRow, PodRow } from "../rows";
import { podsByGang } from "../store";
import { Icon } from "../ui/icons";
import { Section } from "../ui/panel";
import { State } from "../ui/state";
import { gangTone } from "./states";
import { TimelineView } from "./timelineview";
import { levelName } from "./levels";

/** Each with its timeline; only the first that is not running yet, else the first, is open. */
export function Gangs({ gangs, pods }: { gangs: readonly GangRow[]; pods: readonly PodRow[] }): JSX.Element {
  const sorted = [...gangs].sort((one, other) => one.id.localeCompare(other.id, "en", { numeric: true }));
  const [opened] = useState(() => (sorted.find((gang) => gang.phase !== "Running") ?? sorted[0])?.id);
  return (
    <Section title={sorted.length === 1 ? "Gang" : "Gangs"} aside={sorted.length > 1 ? number(sorted.length) : undefined}>
      {sorted.map((gang) => (
        <details key={gang.id} class="gang" open={gang.id === opened}>
          <summary>
            <Icon name="right" size={12} />
            <span class="gang-name">{apart(gang.id).name}</span>
            <State tone={gangTone(gang)}>{gang.phase || "Pending"}</State>
            <span class="muted gang-words">{inWords(gang)}</span>
          </summary>
          <TimelineView gang={gang} pods={podsOf(gang, pods)} />
        </details>
      ))}
    </Section>
  );
}

function podsOf(gang: GangRow, pods: readonly PodRow[]): readonly PodRow[] {
  const mine = podsByGang.peek(gang.id);
  return mine.size ? [...mine.values()] : pods.filter((pod) => gang.groups.some((group) => group.pods.includes(pod.id)));
}

function inWords(gang: GangRow): string {
  const atLeast = gang.groups.reduce((sum, group) => sum + group.min, 0);
  const parts = [`starts with ${counted(atLeast, "pod")} or not at all`];
  if (gang.pack) parts.push(`within one ${levelName(gang.pack)}`);
  if (gang.prefers) parts.push(`${gang.pack ? "rather" : "if it can"} within one ${levelName(gang.prefers)}`);
  if (gang.base) parts.push(`after ${apart(gang.base).name}`);
  if (gang.priority) parts.push(`priority ${gang.priority}`);
  if (gang.score !== undefined) parts.push(`placement score ${gang.score.toFixed(2)}`);
  return parts.join(", ");
}
