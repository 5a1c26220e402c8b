/** The details of one workload. */
import type { ComponentChildren, JSX } from "preact";
import { ask, mayAct } from "../actions";
import { apart, counted, exact, number } from "../format";
import { queueHref } from "../links";
import type { TableName } from "../rows";
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
import { partsOf, workloads, type WorkloadRow } from "./rows";
import { isOver, shortWords, states, waitsForPlace, type Parts } from "./states";
import { TimelineView } from "./timelineview";
import { WhyHere, WhyPending } from "./why";

const PARTS = ["pods", "gangs", "sets", "cliques", "deployments", "statefulsets", "jobs"] as const;

/** A panel beside the list. */
export function WorkloadDetails({ id, onClose }: { id: string; onClose: () => void }): JSX.Element {
  const row = workloads.value.find((each) => each.id === id);
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
  return (
    <Panel
      title={name}
      subtitle={subtitle}
      badge={<State tone={states[row.state]}>{row.state}</State>}
      actions={actionsOf(row, parts)}
      onClose={onClose}
    >
      <Overview row={row} parts={parts} />
      <Why row={row} parts={parts} />
      {parts.set && <Roles set={parts.set} cliques={parts.cliques} />}
      {parts.gangs.length > 0 ? (
        <Gangs gangs={parts.gangs} pods={parts.pods} />
      ) : (
        parts.pods.length > 0 && (
          <Section title="Timeline"><TimelineView gang={undefined} pods={parts.pods} /></Section>
        )
      )}
      <Pods pods={parts.pods} />
      <Section title="Events"><EventList events={eventsOf(id, parts)} /></Section>
      <Objects parts={parts} />
    </Panel>
  );
}

function Overview({ row, parts }: { row: WorkloadRow; parts: Parts }): JSX.Element {
  const { set } = parts;
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
        ["Starts", set?.startup && (startup[set.startup] ?? set.startup)],
        ["Problem", set?.problem],
      ]}
    />
  );
}

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
        <Section title={row.state === "Starting" || row.state === "Updating" ? "Not ready yet" : "What is wrong"}>
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
  if (!parts.set && parts.pods[0]) objects.push(["pods", parts.pods[0].id, `Live object: Pod ${apart(parts.pods[0].id).name}`]);
  return (
    <div class="objects">
      {objects.map(([table, id, title]) => <LiveObject key={table + id} table={table} id={id} title={title} />)}
    </div>
  );
}

function eventsOf(id: string, { gangs, cliques, pods }: Parts) {
  const parts = [...gangs.map((each) => `PodGang/${each.id}`), ...cliques.map((each) => `PodClique/${each.id}`), ...pods.map((each) => `Pod/${each.id}`)];
  tables.events.version.value;
  // A lone pod is its own part.
  return [...new Set([id, ...parts])].flatMap((object) => [...eventsByObject.peek(object).values()]);
}

function actionsOf(row: WorkloadRow, { set, pods }: Parts): ComponentChildren {
  if (!mayAct.value) return undefined;
  const lone = pods.length === 1 && row.kind === "Pod" ? pods[0] : undefined;
  if (!set && !lone) return undefined;
  return (
    <>
      {set && (
        <button
          type="button"
          class="button small"
          onClick={() =>
            ask({
              title: `Scale ${row.name}`,
              text: `It has ${counted(set.replicas, "replica")} now. Each replica is a gang of its own that needs its place as a whole.`,
              verb: "Scale",
              scales: true,
              act: { act: "scale", table: "sets", id: set.id, replicas: set.replicas },
            })
          }
        >
          Scale…
        </button>
      )}
      <button type="button" class="button small danger" onClick={() => (set ? askDelete(row, set.id, "sets") : lone && askDelete(row, lone.id, "pods"))}>
        Delete…
      </button>
    </>
  );
}

function askDelete(row: WorkloadRow, id: string, table: "sets" | "pods"): void {
  const pods = counted(row.wanted, "pod");
  ask({
    title: `Delete ${row.name}?`,
    text: table === "sets" ? `The set goes with all that belongs to it: ${pods}${row.gpus ? `, ${counted(row.gpus, "GPU")} become free` : ""}. It cannot be undone.` : "The pod goes, and nothing brings it back.",
    verb: "Delete",
    danger: true,
    act: { act: "delete", table, id },
  });
}

