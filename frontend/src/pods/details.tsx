/** The details of one pod: its containers, their logs, its events. */
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { said } from "../actions";
import { apart, bytes, exact, number } from "../format";
import { nodeHref, queueHref } from "../links";
import type { PodRow } from "../rows";
import { eventsByObject, tables } from "../store";
import { Age, Empty } from "../ui/bits";
import { DeletePod } from "../ui/deletepod";
import { EventList } from "../ui/eventlist";
import { LiveObject } from "../ui/object";
import { Facts, Panel, Section } from "../ui/panel";
import { State } from "../ui/state";
import { areKnown, NotThere } from "../ui/unread";
import { podTone, shortWords } from "../workloads/states";
import { containersOf, type Container, type PodObject } from "./containers";
import { Logs } from "./logs";

/** A panel in place of that of the workload, to which `back` leads. */
export function PodDetails({ id, back, onClose }: { id: string; back: string; onClose: () => void }): JSX.Element {
  const pod = tables.pods.get(id);
  const { name } = apart(id);
  if (!pod) {
    return (
      <Panel title={name} subtitle={<Back to={back} />} onClose={onClose}>
        {areKnown(["pods"]) ? <Empty title="It is not there">Pods come and go: whatever made it may have made another.</Empty> : <NotThere of={["pods"]} what="The pod" />}
      </Panel>
    );
  }
  const scheduler = pod.scheduler ?? "default-scheduler";
  return (
    <Panel
      title={name}
      subtitle={<Back to={back} workload={pod.workload} />}
      badge={<><State tone={podTone(pod)}>{pod.state}</State><DeletePod pod={pod} /></>}
      onClose={onClose}
    >
      <Facts
        of={[
          ["Node", pod.node && <a class="link" href={nodeHref(pod.node)}>{pod.node}</a>],
          ["GPUs", pod.gpus || pod.held ? exact(pod.gpus || (pod.held ?? 0)) : "none"],
          ["Asks for", [pod.cpu && `${number(pod.cpu)} cores`, pod.ram && bytes(pod.ram)].filter(Boolean).join(", ")],
          ["Queue", <a class="link" href={queueHref(pod.queue ?? "default")}>{pod.queue ?? "default"}</a>],
          ["Scheduler", scheduler],
          ["Restarts", String(pod.restarts ?? 0)],
          ["Age", <Age since={pod.created} />],
        ]}
      />
      {pod.message && <Section title={pod.node ? "What is wrong" : "Why it waits"}><p class="why-binding">{shortWords(pod.message)}</p></Section>}
      <Inside pod={pod} />
      <Section title="Events"><EventList events={[...eventsByObject.get(`Pod/${id}`).values()]} /></Section>
      <div class="objects"><LiveObject table="pods" id={id} title="Live object: Pod" /></div>
    </Panel>
  );
}

/** What runs in a pod, and what it writes. */
export function Inside({ pod }: { pod: PodRow }): JSX.Element {
  const [object, setObject] = useState<PodObject | undefined>(undefined);
  const [refused, setRefused] = useState("");
  useEffect(() => {
    let current = true;
    fetch(`/api/object?${new URLSearchParams({ table: "pods", id: pod.id })}`)
      .then((answer) => said<PodObject>(answer))
      .then((found) => {
        if (!current) return;
        setObject(found);
        setRefused("");
      })
      .catch((error: Error) => current && setRefused(error.message));
    return () => {
      current = false;
    };
    // A row is replaced whenever the pod changes.
  }, [pod]);
  if (!object) return <Section title="Containers"><p class={refused ? "tone-bad" : "faint"}>{refused || "…"}</p></Section>;
  const containers = containersOf(object);
  return (
    <>
      <Section title="Containers" aside={number(containers.length)}><Containers containers={containers} /></Section>
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
              <b>{each.name}</b>{each.role && <span class="faint"> {each.role}</span>}
              <p class="faint image">{each.image}</p>
            </td>
            <td>
              <State tone={each.tone}>{each.state}</State>
              {each.message && <p class="faint">{shortWords(each.message)}</p>}
              {each.last && <p class="faint">Last run: {each.last}</p>}
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
  return <>Pod of <a class="link" href={to}>{name ? `${kind} ${name}` : "its workload"}</a></>;
}
