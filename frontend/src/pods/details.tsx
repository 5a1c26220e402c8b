/** The details of one pod: its containers, their logs, its events. */
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { nodeHref, queueHref } from "../app/links";
import { readReply } from "../data/actions";
import type { PodRow } from "../data/rows";
import { eventsByObject, tables } from "../data/store";
import { ContributedSections } from "../described/sections";
import { bytes, formatExact, number, splitId } from "../lib/format";
import { Age, Empty } from "../ui/controls";
import { EventList } from "../ui/event-list";
import { LiveObject } from "../ui/live-object";
import { Facts, Panel, Section } from "../ui/panel";
import { State } from "../ui/state";
import { areLoaded, NotFoundNotice } from "../ui/table-notices";
import { podTone, shortenText } from "../workloads/states";
import { type Container, containersOf, type PodObject } from "./containers";
import { DeletePod } from "./delete-button";
import { Logs } from "./logs";

/** A panel in place of the workload's, to which `back` links. */
export function PodDetails({ id, back, onClose }: { id: string; back: string; onClose: () => void }): JSX.Element {
  const pod = tables.pods.get(id);
  const { name } = splitId(id);
  if (!pod) {
    return (
      <Panel title={name} subtitle={<Back to={back} />} onClose={onClose}>
        {areLoaded(["pods"]) ? (
          <Empty title="Pod not found">It was deleted; its controller may have created a replacement.</Empty>
        ) : (
          <NotFoundNotice of={["pods"]} what="The pod" />
        )}
      </Panel>
    );
  }
  const scheduler = pod.scheduler ?? "default-scheduler";
  return (
    <Panel
      title={name}
      subtitle={<Back to={back} workload={pod.workload} />}
      badge={
        <>
          <State tone={podTone(pod)}>{pod.state}</State>
          <DeletePod pod={pod} />
        </>
      }
      onClose={onClose}
    >
      <Facts
        of={[
          [
            "Node",
            pod.node && (
              <a class="link" href={nodeHref(pod.node)}>
                {pod.node}
              </a>
            ),
          ],
          ["GPUs", pod.gpus || pod.allocatedGpus ? formatExact(pod.gpus || (pod.allocatedGpus ?? 0)) : "none"],
          [
            "Requests",
            [pod.cpu && `${number(pod.cpu)} cores`, pod.memory && bytes(pod.memory)].filter(Boolean).join(", "),
          ],
          [
            "Queue",
            <a class="link" href={queueHref(pod.queue ?? "default")}>
              {pod.queue ?? "default"}
            </a>,
          ],
          ["Scheduler", scheduler],
          ["Restarts", String(pod.restarts ?? 0)],
          ["Age", <Age since={pod.created} />],
        ]}
      />
      {pod.message && (
        <Section title={pod.node ? "Problem" : "Why it is pending"}>
          <p class="why-text">{shortenText(pod.message)}</p>
        </Section>
      )}
      <PodSections pod={pod} />
      <Section title="Events">
        <EventList events={[...eventsByObject.get(`Pod/${id}`).values()]} />
      </Section>
      <div class="objects">
        <LiveObject table="pods" id={id} title="Live object: Pod" />
      </div>
    </Panel>
  );
}

/** The containers of a pod, and their logs. */
export function PodSections({ pod }: { pod: PodRow }): JSX.Element {
  const [object, setObject] = useState<PodObject | undefined>(undefined);
  const [error, setError] = useState("");
  useEffect(() => {
    let current = true;
    fetch(`/api/object?${new URLSearchParams({ table: "pods", id: pod.id })}`)
      .then((reply) => readReply<PodObject>(reply))
      .then((found) => {
        if (!current) return;
        setObject(found);
        setError("");
      })
      .catch((failure: Error) => current && setError(failure.message));
    return () => {
      current = false;
    };
    // The row is a new object whenever the pod changes.
  }, [pod]);
  if (!object)
    return (
      <Section title="Containers">
        <p class={error ? "tone-bad" : "faint"}>{error || "…"}</p>
      </Section>
    );
  const containers = containersOf(object);
  return (
    <>
      <Section title="Containers" aside={number(containers.length)}>
        <Containers containers={containers} />
      </Section>
      <ContributedSections table="pods" id={pod.id} />
      <Logs key={pod.id} pod={pod.id} containers={containers} />
    </>
  );
}

function Containers({ containers }: { containers: readonly Container[] }): JSX.Element {
  return (
    <table class="plain containers">
      <thead>
        <tr>
          <th>Container</th>
          <th>State</th>
          <th>Ready</th>
          <th class="num">Restarts</th>
        </tr>
      </thead>
      <tbody>
        {containers.map((each) => (
          <tr key={each.name}>
            <td>
              <b>{each.name}</b>
              {each.role && <span class="faint"> {each.role}</span>}
              <p class="faint image">{each.image}</p>
            </td>
            <td>
              <State tone={each.tone}>{each.state}</State>
              {each.message && <p class="faint">{shortenText(each.message)}</p>}
              {each.last && <p class="faint">Previous run: {each.last}</p>}
            </td>
            <td>{each.ready ? "yes" : "no"}</td>
            <td class="num">{number(each.restarts)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Back({ to, workload }: { to: string; workload?: string }): JSX.Element {
  const [kind, , name] = (workload ?? "").split("/");
  return (
    <>
      Pod of{" "}
      <a class="link" href={to}>
        {name ? `${kind} ${name}` : "its workload"}
      </a>
    </>
  );
}
