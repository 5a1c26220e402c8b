/** The details of one queue. */
import type { JSX } from "preact";
import { amount, counted, number, resourceTitle } from "../format";
import { workloadHref } from "../links";
import type { QueueRow } from "../rows";
import { eventsByObject, tables } from "../store";
import { EventList } from "../ui/eventlist";
import { LiveObject } from "../ui/object";
import { Facts, Panel, Section } from "../ui/panel";
import { Badge, State } from "../ui/state";
import { areKnown, NotThere } from "../ui/unread";
import { workloads, type WorkloadRow } from "../workloads/rows";
import { states } from "../workloads/states";
import { lineage, resourcesOf, shareOf } from "./tree";
import { allQueues } from "./usual";
import { WaitingList, waitingIn, waitingIsKnown, type Waiting } from "./waiting";

const SHOWN = 30;

/** A panel beside the tree. */
export function QueueDetails({ name, onClose }: { name: string; onClose: () => void }): JSX.Element {
  const queue = tables.queues.get(name);
  const waiting = waitingIn(withChildren(name));
  const standing = workloads.value.filter((row) => row.queue === name && !["Waiting", "Pending", "Suspended", "Completed", "Empty"].includes(row.state));
  if (!queue) {
    const usual = allQueues.value.find((each) => each.id === name);
    const words = name === "default" ? "Gangs that name no queue are here. There is no Queue of that name that gives them a share or a limit." : "There is no such queue.";
    return (
      <Panel title={name} subtitle="Queue" onClose={onClose}>
        {areKnown(["queues"]) ? <p class="notice tone-idle">{words}</p> : <NotThere of={["queues"]} what="The queue" />}
        {usual && <Resources queue={usual} />}
        <Members waiting={waiting} standing={standing} />
      </Panel>
    );
  }
  return (
    <Panel
      title={name}
      subtitle={queue.parent ? `Queue below ${queue.parent}` : "Queue"}
      badge={queue.ready ? <State tone="good">Ready</State> : <State tone={queue.new ? "idle" : "bad"}>{queue.new ? "New" : "Not ready"}</State>}
      onClose={onClose}
    >
      {!queue.ready && queue.message && <p class={`notice ${queue.new ? "tone-idle" : "tone-bad"}`}>{queue.message}</p>}
      <Facts of={[["Weight", number(queue.weight)], ["Priority", number(queue.priority ?? 0)], ["Waiting", waitingIsKnown() ? number(waiting.length) : undefined], ["Placed", counted(standing.length, "workload")]]} />
      <Resources queue={queue} />
      <Members waiting={waiting} standing={standing} />
      <Section title="Events"><EventList events={[...eventsByObject.get(`Queue/${name}`).values()]} /></Section>
      <LiveObject table="queues" id={name} />
    </Panel>
  );
}

function Members({ waiting, standing }: { waiting: readonly Waiting[]; standing: readonly WorkloadRow[] }): JSX.Element {
  return (
    <>
      <Section title="Waiting" aside={waitingIsKnown() ? number(waiting.length) : undefined}><WaitingList waiting={waiting} /></Section>
      {standing.length > 0 && (
        <Section title="Placed" aside={number(standing.length)}>
          <p class="chips">
            {standing.slice(0, SHOWN).map((row) => (
              <a key={row.id} href={workloadHref(row.id)} title={`${row.kind} in ${row.namespace}, ${row.state}`}>
                <Badge tone={states[row.state]}>{row.name}{row.gpus > 0 && ` · ${counted(row.gpus, "GPU")}`}</Badge>
              </a>
            ))}
            {standing.length > SHOWN && <span class="faint">and {number(standing.length - SHOWN)} more</span>}
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
            <th class="num">Asked for</th>
            <th class="num">Deserved</th>
            <th class="num">Fair share</th>
            <th class="num">Limit</th>
          </tr>
        </thead>
        <tbody>
          {resourcesOf([queue]).map((resource) => {
            const share = shareOf(queue, resource);
            const cell = (value: number | undefined) => <td class="num">{value === undefined ? <span class="faint">–</span> : amount(resource, value)}</td>;
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

function withChildren(name: string): Set<string> {
  const queues = tables.queues.peek();
  return new Set([name, ...[...queues.keys()].filter((each) => lineage(each, queues).has(name))]);
}
