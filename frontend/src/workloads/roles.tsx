/** The cliques of a PodCliqueSet: replicas, readiness and startup order. */
import type { JSX } from "preact";
import { actionsAllowed, requestConfirmation } from "../data/actions";
import type { CliqueRow, SetRow } from "../data/rows";
import { number, pluralize, splitId } from "../lib/format";
import { Meter } from "../ui/controls";
import { Section } from "../ui/panel";

/** One row per clique of the template, summed over its instances, which are listed below if there are several. */
export function Roles({ set, cliques }: { set: SetRow; cliques: readonly CliqueRow[] }): JSX.Element {
  const roles = set.cliques.map((role) => cliques.filter((each) => roleOf(each, set) === role.name));
  return (
    <Section title="Roles">
      <table class="plain">
        <thead>
          <tr>
            <th>Role</th>
            <th class="num">GPUs each</th>
            <th class="num">Minimum</th>
            <th class="num">Ready</th>
            <th class="bar-column">
              <span class="visually-hidden">Share ready</span>
            </th>
            {actionsAllowed.value && (
              <th>
                <span class="visually-hidden">Actions</span>
              </th>
            )}
          </tr>
        </thead>
        <tbody>
          {set.cliques.map((role, at) => {
            const instances = roles[at] ?? [];
            const desired = instances.length ? total(instances, (each) => each.replicas) : role.replicas * set.replicas;
            const ready = total(instances, (each) => each.ready ?? 0);
            return (
              <tr key={role.name}>
                <td>
                  <b>{role.name}</b>
                  {role.role && role.role !== role.name && <span class="faint"> {role.role}</span>}
                  <p class="muted">{startupText(set, at)}</p>
                </td>
                <td class="num">{role.gpus || <span class="faint">–</span>}</td>
                <td class="num">{role.min}</td>
                <td class="num">
                  {ready}
                  <span class="faint">/{desired}</span>
                </td>
                <td class="bar-column">
                  <Meter
                    share={desired ? ready / desired : 0}
                    label={`${ready} of ${desired} ready`}
                    colour={ready >= desired ? "var(--good)" : "var(--busy)"}
                  />
                </td>
                {actionsAllowed.value && (
                  <td class="num">{instances.length === 1 && instances[0] && <Scale clique={instances[0]} />}</td>
                )}
              </tr>
            );
          })}
        </tbody>
      </table>
      {roles.some((instances) => instances.length > 1) && <Instances cliques={roles.flat()} />}
    </Section>
  );
}

function Instances({ cliques }: { cliques: readonly CliqueRow[] }): JSX.Element {
  const sorted = [...cliques].sort((one, other) => one.id.localeCompare(other.id, "en", { numeric: true }));
  return (
    <details class="fold">
      <summary>{pluralize(sorted.length, "clique")}</summary>
      <table class="plain">
        <tbody>
          {sorted.map((clique) => (
            <tr key={clique.id}>
              <td>{splitId(clique.id).name}</td>
              <td class="num">
                {number(clique.ready ?? 0)}
                <span class="faint">/{number(clique.replicas)} ready</span>
              </td>
              {actionsAllowed.value && (
                <td class="num">
                  <Scale clique={clique} />
                </td>
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </details>
  );
}

function Scale({ clique }: { clique: CliqueRow }): JSX.Element {
  const { name } = splitId(clique.id);
  return (
    <button
      type="button"
      class="button small"
      aria-label={`Scale ${name}…`}
      onClick={() =>
        requestConfirmation({
          title: `Scale ${name}`,
          text: `Current replicas: ${clique.replicas}. Its gang needs at least ${number(clique.min)} of them.`,
          verb: "Scale",
          input: { label: "Replicas", minimum: 0 },
          action: { action: "scale", table: "cliques", id: clique.id, value: clique.replicas },
        })
      }
    >
      Scale…
    </button>
  );
}

/** A PodClique is named SET-REPLICA-…-ROLE; of two matching roles, such as "a" and "b-a", the longer. */
function roleOf(clique: CliqueRow, set: SetRow): string | undefined {
  const matching = set.cliques.map((role) => role.name).filter((name) => clique.id.endsWith(`-${name}`));
  return matching.sort((one, other) => other.length - one.length)[0];
}

function startupText(set: SetRow, at: number): string {
  const role = set.cliques[at];
  if (set.startup === "Explicit" && role?.after?.length) return `after ${role.after.join(", ")}`;
  if (set.startup === "InOrder" && at > 0) return `after ${set.cliques[at - 1]?.name}`;
  return set.startup === "AnyOrder" || !set.startup ? "with the others" : "first";
}

function total<T>(items: readonly T[], of: (item: T) => number): number {
  return items.reduce((sum, item) => sum + of(item), 0);
}
