/** The details of one workload. */
import type { ComponentChildren, JSX } from "preact";
import { ask, mayAct, type Act } from "../actions";
import { apart, counted, exact, number } from "../format";
import { queueHref, workloadHref } from "../links";
import { Inside, PodDetails } from "../pods/details";
import { go, keepingQuery, useQuery } from "../router";
import type { ConditionRow, OwnerRow, TableName } from "../rows";
import { eventsByObject, tables } from "../store";
import { Age, Empty } from "../ui/bits";
import { EventList } from "../ui/eventlist";
import { LiveObject } from "../ui/object";
import { Facts, Panel, Section } from "../ui/panel";
import { State } from "../ui/state";
import { areKnown, NotThere } from "../ui/unread";
import { Gangs } from "./gangs";
import { Pods } from "./pods";
import { Roles } from "./roles";
import { OWNERS, partsOf, workloads, type WorkloadRow } from "./rows";
import { isOver, shortWords, states, waitsForPlace, type Parts, type StateName } from "./states";
import { TimelineView } from "./timelineview";
import { WhyHere, WhyPending } from "./why";

const PARTS = ["pods", "gangs", "sets", "cliques", "deployments", "statefulsets", "jobs"] as const;

/** A panel beside the list. */
export function WorkloadDetails({ id, onClose }: { id: string; onClose: () => void }): JSX.Element {
  const row = workloads.value.find((each) => each.id === id);
  const [pod] = useQuery("pod");
  if (pod) {
    const back = keepingQuery(workloadHref(id), "pod");
    return <PodDetails key={pod} id={pod} back={back} onClose={() => go(back)} />;
  }
  const [kind = "", namespace = "", name = ""] = id.split("/");
  const subtitle = `${kind} in ${namespace}`;
  if (!row) {
    return (
      <Panel title={name} subtitle={subtitle} onClose={onClose}>
        {areKnown(["workloads"]) ? <Empty title="It is not there">It may have been deleted or have finished and been cleaned up.</Empty> : <NotThere of={["pods", "sets", "deployments", "statefulsets", "jobs"]} what="It" />}
      </Panel>
    );
  }
  for (const table of PARTS) tables[table].version.value;
  const parts = partsOf(id);
  const lone = kind === "Pod" ? parts.pods[0] : undefined;
  return (
    <Panel
      key={id}
      title={name}
      subtitle={subtitle}
      badge={<State tone={states[row.state]}>{row.state}</State>}
      actions={actionsOf(row, parts)}
      onClose={onClose}
    >
      <Overview row={row} parts={parts} />
      <Why row={row} parts={parts} />
      {parts.set && <Roles set={parts.set} cliques={parts.cliques} />}
      {lone && <Inside pod={lone} />}
      {parts.owner?.conditions && <Section title="Conditions"><Conditions conditions={parts.owner.conditions} /></Section>}
      {parts.gangs.length > 0 ? (
        <Gangs gangs={parts.gangs} pods={parts.pods} />
      ) : (
        parts.pods.length > 0 && (
          <Section title="Timeline"><TimelineView gang={undefined} pods={parts.pods} /></Section>
        )
      )}
      {!lone && <Pods pods={parts.pods} />}
      <Section title="Events"><EventList events={eventsOf(id, parts)} /></Section>
      <Objects parts={parts} />
    </Panel>
  );
}

function Overview({ row, parts }: { row: WorkloadRow; parts: Parts }): JSX.Element {
  const { set, owner } = parts;
  const startup: Record<string, string> = {
    AnyOrder: "all roles at once",
    InOrder: "roles one after another",
    Explicit: "each role after those it names",
  };
  return (
    <Facts
      of={[
        ["Pods ready", `${number(row.ready)} of ${number(row.wanted)}`],
        ["GPUs", row.gpus ? exact(row.gpus) : "none"],
        ["Queue", <a href={queueHref(row.queue)}>{row.queue}</a>],
        ["Age", <Age since={row.created} />],
        ["Replicas", set && `${set.available ?? 0} of ${set.replicas} available`],
        ["Replicas", owner && owner.kind !== "Job" && `${owner.ready ?? 0} of ${owner.replicas} ready, ${owner.updated ?? 0} updated, ${owner.available ?? 0} available`],
        ["Succeeded", owner?.kind === "Job" && `${owner.succeeded ?? 0} of ${owner.replicas}`],
        ["Active", owner?.kind === "Job" && `${owner.active ?? 0}, at most ${owner.parallelism ?? 0} at once`],
        ["Failed pods", owner?.kind === "Job" && String(owner.failed ?? 0)],
        ["Starts", set?.startup && (startup[set.startup] ?? set.startup)],
        ["Problem", set?.problem],
      ]}
    />
  );
}

const NOT_WRONG: Partial<Record<StateName, string>> = { Starting: "Not ready yet", Updating: "Not ready yet", Pending: "Why it has no pods" };

function Why({ row, parts }: { row: WorkloadRow; parts: Parts }): JSX.Element | null {
  const gang = parts.gangs.find(waitsForPlace);
  const pod = parts.pods.find((each) => !each.node && !isOver(each));
  const asked = gang?.id ?? pod?.id;
  if (asked && (row.state === "Waiting" || row.state === "Partial")) {
    return (
      <Section title="Why it waits" aside={apart(asked).name}>
        <WhyPending id={asked} hint={gang?.waits ?? pod?.message ?? row.why} />
      </Section>
    );
  }
  const stands = parts.gangs[0]?.id ?? parts.pods.find((each) => each.node)?.id;
  return (
    <>
      {row.why && (
        <Section title={NOT_WRONG[row.state] ?? "What is wrong"}>
          <p class="why-binding">{shortWords(row.why)}</p>
        </Section>
      )}
      {stands && <WhyHere id={stands} />}
    </>
  );
}

function Objects({ parts }: { parts: Parts }): JSX.Element {
  const objects: [TableName, string, string][] = [];
  if (parts.set) objects.push(["sets", parts.set.id, "Live object: PodCliqueSet"]);
  for (const gang of parts.gangs.slice(0, 4)) objects.push(["gangs", gang.id, `Live object: PodGang ${apart(gang.id).name}`]);
  const { owner } = parts;
  if (owner) objects.push([OWNERS[owner.kind as keyof typeof OWNERS], owner.id, `Live object: ${owner.kind}`]);
  else if (!parts.set && parts.pods[0]) objects.push(["pods", parts.pods[0].id, `Live object: Pod ${apart(parts.pods[0].id).name}`]);
  return (
    <div class="objects">
      {objects.map(([table, id, title]) => <LiveObject key={table + id} table={table} id={id} title={title} />)}
    </div>
  );
}

function eventsOf(id: string, { gangs, cliques, pods }: Parts) {
  const parts = [...gangs.map((each) => `PodGang/${each.id}`), ...cliques.map((each) => `PodClique/${each.id}`), ...pods.map((each) => `Pod/${each.id}`)];
  tables.events.version.value;
  // A Deployment's pods are made by its ReplicaSets, which tell why they cannot.
  const made = id.startsWith("Deployment/") ? [...tables.events.peek().values()].filter((event) => isOfReplicaSet(event.object, id)) : [];
  // A lone pod is its own part.
  return [...new Set([id, ...parts])].flatMap((object) => [...eventsByObject.peek(object).values()]).concat(made);
}

function isOfReplicaSet(object: string, deployment: string): boolean {
  const prefix = `ReplicaSet${deployment.slice(deployment.indexOf("/"))}-`;
  return object.startsWith(prefix) && !object.slice(prefix.length).includes("-");
}

function actionsOf(row: WorkloadRow, { set, owner, pods }: Parts): ComponentChildren {
  if (!mayAct.value) return undefined;
  const lone = pods.length === 1 && row.kind === "Pod" ? pods[0] : undefined;
  if (set) {
    return (
      <>
        <Scale row={row} table="sets" id={set.id} replicas={set.replicas} text="Each replica is a gang of its own that needs its place as a whole." />
        <Delete row={row} table="sets" id={set.id} />
      </>
    );
  }
  if (owner) return <OwnerActions row={row} owner={owner} />;
  return lone && <Delete row={row} table="pods" id={lone.id} />;
}

function OwnerActions({ row, owner }: { row: WorkloadRow; owner: OwnerRow }): JSX.Element {
  const { id } = owner;
  const table = OWNERS[owner.kind as keyof typeof OWNERS];
  if (table === "jobs") {
    return (
      <>
        {!owner.finished && owner.suspended && (
          <Do title={`Resume ${row.name}?`} text="Its pods are made again, and wait for their place." verb="Resume" act={{ act: "resume", table, id }} />
        )}
        {!owner.finished && !owner.suspended && (
          <Do title={`Suspend ${row.name}?`} text={`${counted(owner.active ?? 0, "pod")} of it ${owner.active === 1 ? "is" : "are"} ended, and what they did since they began is lost unless they saved it.`} verb="Suspend" act={{ act: "suspend", table, id }} />
        )}
        <Delete row={row} table={table} id={id} />
      </>
    );
  }
  return (
    <>
      <Scale row={row} table={table} id={id} replicas={owner.replicas} text={`Each replica is a pod${owner.gpus ? ` with ${counted(owner.gpus, "GPU")}` : ""}.`} />
      <Do title={`Restart ${row.name}?`} text="Its pods are replaced, some at a time, as its strategy says." verb="Restart" act={{ act: "restart", table, id }} />
      <Delete row={row} table={table} id={id} />
    </>
  );
}

function Do({ title, text, verb, act }: { title: string; text: string; verb: string; act: Act }): JSX.Element {
  return <button type="button" class="button small" onClick={() => ask({ title, text, verb, act })}>{verb}…</button>;
}

function Scale({ row, table, id, replicas, text }: { row: WorkloadRow; table: Act["table"]; id: string; replicas: number; text: string }): JSX.Element {
  return (
    <button
      type="button"
      class="button small"
      onClick={() =>
        ask({
          title: `Scale ${row.name}`,
          text: `It has ${counted(replicas, "replica")} now. ${text}`,
          verb: "Scale",
          scales: true,
          act: { act: "scale", table, id, replicas },
        })
      }
    >
      Scale…
    </button>
  );
}

function Delete({ row, table, id }: { row: WorkloadRow; table: Act["table"]; id: string }): JSX.Element {
  const freed = row.gpus ? `, ${counted(row.gpus, "GPU")} become free` : "";
  const text =
    table === "pods" ? "The pod goes, and nothing brings it back." : `It goes with all that belongs to it: ${counted(row.wanted, "pod")}${freed}. It cannot be undone.`;
  return (
    <button
      type="button"
      class="button small danger"
      onClick={() => ask({ title: `Delete ${row.name}?`, text, verb: "Delete", danger: true, act: { act: "delete", table, id } })}
    >
      Delete…
    </button>
  );
}

function Conditions({ conditions }: { conditions: readonly ConditionRow[] }): JSX.Element {
  return (
    <table class="plain conditions">
      <thead>
        <tr>
          <th>Condition</th>
          <th>Status</th>
          <th>Says</th>
          <th class="num">Since</th>
        </tr>
      </thead>
      <tbody>
        {conditions.map((each) => (
          <tr key={each.type}>
            <td><b>{each.type}</b></td>
            <td>{each.status}</td>
            <td>{each.reason}{each.message && <p class="faint">{shortWords(each.message)}</p>}</td>
            <td class="num"><Age since={each.since} /></td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
