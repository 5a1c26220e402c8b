/** The roles of a set: how many of each, and after whom they start. */
import type { JSX } from "preact";
import type { CliqueRow, SetRow } from "../rows";
import { Meter } from "../ui/bits";
import { Section } from "../ui/panel";

/** One line for each clique of the template, summed over replicas. */
export function Roles({ set, cliques }: { set: SetRow; cliques: readonly CliqueRow[] }): JSX.Element {
  return (
    <Section title="Roles">
      <table class="plain">
        <thead>
          <tr>
            <th>Role</th>
            <th>Starts</th>
            <th class="num">GPUs each</th>
            <th class="num">At least</th>
            <th class="num">Ready</th>
            <th class="bar-column"><span class="visually-hidden">Share ready</span></th>
          </tr>
        </thead>
        <tbody>
          {set.cliques.map((role, at) => {
            const instances = cliques.filter((each) => instanceOf(each, role.name));
            const wanted = instances.length ? total(instances, (each) => each.replicas) : role.replicas * set.replicas;
            const ready = total(instances, (each) => each.ready ?? 0);
            return (
              <tr key={role.name}>
                <td><b>{role.name}</b>{role.role && role.role !== role.name && <span class="faint"> {role.role}</span>}</td>
                <td class="muted">{startsAfter(set, at)}</td>
                <td class="num">{role.gpus || <span class="faint">–</span>}</td>
                <td class="num">{role.min}</td>
                <td class="num">{ready}<span class="faint">/{wanted}</span></td>
                <td class="bar-column"><Meter share={wanted ? ready / wanted : 0} label={`${ready} of ${wanted} ready`} colour={ready >= wanted ? "var(--good)" : "var(--busy)"} /></td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </Section>
  );
}

/** A PodClique is named SET-REPLICA-…-ROLE. */
function instanceOf(clique: CliqueRow, role: string): boolean {
  return clique.id.endsWith(`-${role}`);
}

function startsAfter(set: SetRow, at: number): string {
  const role = set.cliques[at];
  if (set.startup === "Explicit" && role?.after?.length) return `after ${role.after.join(", ")}`;
  if (set.startup === "InOrder" && at > 0) return `after ${set.cliques[at - 1]?.name}`;
  return set.startup === "AnyOrder" || !set.startup ? "with the others" : "first";
}

function total<T>(items: readonly T[], of: (item: T) => number): number {
  return items.reduce((sum, item) => sum + of(item), 0);
}
