/** The details of one queue. */
import type { JSX } from "preact";
import { workloadHref } from "../app/links";
import type { QueueRow } from "../data/rows";
import { eventsByObject, tables } from "../data/store";
import { ActionButtons } from "../described/actions";
import { ContributedSections } from "../described/sections";
import { amount, number, pluralize, resourceTitle } from "../lib/format";
import { EventList } from "../ui/event-list";
import { LiveObject } from "../ui/live-object";
import { Facts, Panel, Section } from "../ui/panel";
import { Badge, State } from "../ui/state";
import { areLoaded, NotFoundNotice } from "../ui/table-notices";
import { states } from "../workloads/states";
import { type WorkloadRow, workloads } from "../workloads/workload-list";
import { isPendingKnown, type PendingItem, PendingList, pendingIn } from "./pending-list";
import { problemTone, queuePath, queueShare, resourcesOf } from "./tree";

const MAX_SHOWN = 30;

/** Why the default queue may be missing. */
export const NO_DEFAULT_QUEUE = "A running scheduler creates the default queue, for workloads that name none.";

/** The panel beside the tree. */
export function QueueDetails({ name, onClose }: { name: string; onClose: () => void }): JSX.Element {
  const queue = tables.queues.get(name);
  const pending = pendingIn(withDescendants(name));
  const placed = workloads.value.filter(
    (row) => row.queue === name && !["Pending", "Creating", "Suspended", "Completed", "Empty"].includes(row.state),
  );
  if (!queue) {
    const text = name === "default" ? NO_DEFAULT_QUEUE : "Queue not found.";
    return (
      <Panel title={name} subtitle="Queue" onClose={onClose}>
        {areLoaded(["queues"]) ? (
          <p class="notice tone-idle">{text}</p>
        ) : (
          <NotFoundNotice of={["queues"]} what="The queue" />
        )}
        <Members pending={pending} placed={placed} />
      </Panel>
    );
  }
  return (
    <Panel
      title={name}
      subtitle={queue.parent ? `Queue below ${queue.parent}` : "Queue"}
      badge={
        queue.ready ? (
          <State tone="good">Ready</State>
        ) : (
          <State tone={problemTone(queue)}>{queue.observed ? "Not ready" : "New"}</State>
        )
      }
      actions={<ActionButtons table="queues" row={{ ...queue }} />}
      onClose={onClose}
    >
      {!queue.ready && queue.message && <p class={`notice tone-${problemTone(queue)}`}>{queue.message}</p>}
      <Facts
        of={[
          ["Weight", number(queue.weight)],
          ["Priority", number(queue.priority ?? 0)],
          ["Pending", queue.observed ? number(queue.pendingGangs ?? 0) : undefined],
          ["Placed", pluralize(placed.length, "workload")],
        ]}
      />
      <Resources queue={queue} />
      <Members pending={pending} placed={placed} />
      <ContributedSections table="queues" id={name} />
      <Section title="Events">
        <EventList events={[...eventsByObject.get(`Queue/${name}`).values()]} />
      </Section>
      <LiveObject table="queues" id={name} />
    </Panel>
  );
}

function Members({
  pending,
  placed,
}: {
  pending: readonly PendingItem[];
  placed: readonly WorkloadRow[];
}): JSX.Element {
  return (
    <>
      <Section title="Pending" aside={isPendingKnown() ? number(pending.length) : undefined}>
        <PendingList pending={pending} />
      </Section>
      {placed.length > 0 && (
        <Section title="Placed" aside={number(placed.length)}>
          <p class="chips">
            {placed.slice(0, MAX_SHOWN).map((row) => (
              <a key={row.id} href={workloadHref(row.id)} title={`${row.kind} in ${row.namespace}, ${row.state}`}>
                <Badge tone={states[row.state]}>
                  {row.name}
                  {row.gpus > 0 && ` · ${pluralize(row.gpus, "GPU")}`}
                </Badge>
              </a>
            ))}
            {placed.length > MAX_SHOWN && <span class="faint">and {number(placed.length - MAX_SHOWN)} more</span>}
          </p>
        </Section>
      )}
    </>
  );
}

function Resources({ queue }: { queue: QueueRow }): JSX.Element {
  return (
    <Section title="Shares">
      <table class="plain">
        <thead>
          <tr>
            <th>Resource</th>
            <th class="num">Used</th>
            <th class="num">Requested</th>
            <th class="num">Deserved</th>
            <th class="num">Fair share</th>
            <th class="num">Limit</th>
          </tr>
        </thead>
        <tbody>
          {resourcesOf([queue]).map((resource) => {
            const share = queueShare(queue, resource);
            const cell = (value: number | undefined) => (
              <td class="num">{value === undefined ? <span class="faint">–</span> : amount(resource, value)}</td>
            );
            return (
              <tr key={resource}>
                <td>{resourceTitle(resource)}</td>
                {cell(share.used)}
                {cell(queue.requested?.[resource])}
                {cell(share.deserved)}
                {cell(share.fairShare)}
                {cell(share.limit)}
              </tr>
            );
          })}
        </tbody>
      </table>
    </Section>
  );
}

function withDescendants(name: string): Set<string> {
  const queues = tables.queues.peek();
  return new Set([name, ...[...queues.keys()].filter((each) => queuePath(each, queues).has(name))]);
}
