/** The details of one workload. */
import type { ComponentChildren, JSX } from "preact";
import { ownPageHref, queueHref, workloadHref } from "../app/links";
import { navigate, useQuery, withQuery } from "../app/router";
import { type Action, actionsAllowed, requestConfirmation } from "../data/actions";
import type { OwnerRow, TableName } from "../data/rows";
import { eventsByObject, tables } from "../data/store";
import { ActionButtons } from "../described/actions";
import { ContributedSections } from "../described/sections";
import { formatExact, number, pluralize, splitId } from "../lib/format";
import { PodDetails, PodSections } from "../pods/details";
import { Conditions } from "../ui/conditions";
import { Age, Empty } from "../ui/controls";
import { EventList } from "../ui/event-list";
import { LiveObject } from "../ui/live-object";
import { Facts, Panel, Section } from "../ui/panel";
import { State } from "../ui/state";
import { areLoaded, NotFoundNotice } from "../ui/table-notices";
import { PendingExplanation, PlacementExplanation } from "./explanation";
import { Gangs } from "./gangs";
import { Pods } from "./pods";
import { Roles } from "./roles";
import { hasFinished, isUnplaced, type StateName, shortenText, states, type WorkloadParts } from "./states";
import { TimelineView } from "./timeline-view";
import { OWNERS, type WorkloadRow, workloadParts, workloads } from "./workload-list";

const PART_TABLES = ["pods", "gangs", "sets", "cliques", "deployments", "statefulsets", "jobs"] as const;

/** The panel beside the list. */
export function WorkloadDetails({ id, onClose }: { id: string; onClose: () => void }): JSX.Element {
  const row = workloads.value.find((each) => each.id === id);
  const [pod] = useQuery("pod");
  if (pod) {
    const back = withQuery(workloadHref(id), "pod");
    return <PodDetails key={pod} id={pod} back={back} onClose={() => navigate(back)} />;
  }
  const [kind = "", namespace = "", name = ""] = id.split("/");
  const subtitle = `${kind} in ${namespace}`;
  if (!row) {
    return (
      <Panel title={name} subtitle={subtitle} onClose={onClose}>
        {areLoaded(["workloads"]) ? (
          <Empty title="Workload not found">It may have been deleted, or cleaned up after it finished.</Empty>
        ) : (
          <NotFoundNotice of={["pods", "sets", "deployments", "statefulsets", "jobs"]} what="The workload" />
        )}
      </Panel>
    );
  }
  for (const table of PART_TABLES) tables[table].version.value;
  const parts = workloadParts(id);
  const standalonePod = kind === "Pod" ? parts.pods[0] : undefined;
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
      {standalonePod && <PodSections pod={standalonePod} />}
      {parts.owner?.conditions && (
        <Section title="Conditions">
          <Conditions conditions={parts.owner.conditions} />
        </Section>
      )}
      {parts.gangs.length > 0 ? (
        <Gangs gangs={parts.gangs} pods={parts.pods} />
      ) : (
        parts.pods.length > 0 && (
          <Section title="Timeline">
            <TimelineView gang={undefined} pods={parts.pods} />
          </Section>
        )
      )}
      {!standalonePod && <Pods pods={parts.pods} />}
      <ContributedSections table="workloads" id={id} />
      <Section title="Events">
        <EventList events={eventsOf(id, parts)} />
      </Section>
      <Objects parts={parts} />
    </Panel>
  );
}

function Overview({ row, parts }: { row: WorkloadRow; parts: WorkloadParts }): JSX.Element {
  const { set, owner } = parts;
  const startup: Record<string, string> = {
    AnyOrder: "all roles at once",
    InOrder: "roles one after another",
    Explicit: "each role after those in startsAfter",
  };
  return (
    <Facts
      of={[
        ["Pods ready", `${number(row.ready)} of ${number(row.desired)}`],
        ["GPUs", row.gpus ? formatExact(row.gpus) : "none"],
        ["Queue", <a href={queueHref(row.queue)}>{row.queue}</a>],
        ["Age", <Age since={row.created} />],
        ["Object", ownPageHref(row.id) && <a href={ownPageHref(row.id)}>{row.kind}</a>],
        ["Replicas", set && `${set.available ?? 0} of ${set.replicas} available`],
        [
          "Replicas",
          owner &&
            owner.kind !== "Job" &&
            `${owner.ready ?? 0} of ${owner.replicas} ready, ${owner.updated ?? 0} updated, ${owner.available ?? 0} available`,
        ],
        ["Succeeded", owner?.kind === "Job" && `${owner.succeeded ?? 0} of ${owner.replicas}`],
        ["Active", owner?.kind === "Job" && `${owner.active ?? 0}, at most ${owner.parallelism ?? 0} at once`],
        ["Failed pods", owner?.kind === "Job" && String(owner.failed ?? 0)],
        ["Startup", set?.startup && (startup[set.startup] ?? set.startup)],
        ["Problem", set?.problem],
      ]}
    />
  );
}

const SECTION_TITLES: Partial<Record<StateName, string>> = {
  Starting: "Not ready yet",
  Updating: "Not ready yet",
  Pending: "Why it has no pods",
};

function Why({ row, parts }: { row: WorkloadRow; parts: WorkloadParts }): JSX.Element | null {
  const gang = parts.gangs.find(isUnplaced);
  const pod = parts.pods.find((each) => !each.node && !hasFinished(each));
  const target = gang?.id ?? pod?.id;
  if (target && (row.state === "Pending" || row.state === "Partial")) {
    return (
      <Section title="Why it is pending" aside={splitId(target).name}>
        <PendingExplanation id={target} hint={gang?.pendingReason ?? pod?.message ?? row.why} />
      </Section>
    );
  }
  const placed = parts.gangs[0]?.id ?? parts.pods.find((each) => each.node)?.id;
  return (
    <>
      {row.why && (
        <Section title={SECTION_TITLES[row.state] ?? "Problem"}>
          <p class="why-text">{shortenText(row.why)}</p>
        </Section>
      )}
      {placed && <PlacementExplanation id={placed} />}
    </>
  );
}

function Objects({ parts }: { parts: WorkloadParts }): JSX.Element {
  const objects: [TableName, string, string][] = [];
  if (parts.set) objects.push(["sets", parts.set.id, "Live object: PodCliqueSet"]);
  for (const gang of parts.gangs.slice(0, 4))
    objects.push(["gangs", gang.id, `Live object: PodGang ${splitId(gang.id).name}`]);
  const { owner } = parts;
  if (owner) objects.push([OWNERS[owner.kind as keyof typeof OWNERS], owner.id, `Live object: ${owner.kind}`]);
  else if (!parts.set && parts.pods[0])
    objects.push(["pods", parts.pods[0].id, `Live object: Pod ${splitId(parts.pods[0].id).name}`]);
  return (
    <div class="objects">
      {objects.map(([table, id, title]) => (
        <LiveObject key={table + id} table={table} id={id} title={title} />
      ))}
    </div>
  );
}

function eventsOf(id: string, { gangs, cliques, pods }: WorkloadParts) {
  const parts = [
    ...gangs.map((each) => `PodGang/${each.id}`),
    ...cliques.map((each) => `PodClique/${each.id}`),
    ...pods.map((each) => `Pod/${each.id}`),
  ];
  tables.events.version.value;
  // Events about failed pod creation of a Deployment are recorded on its ReplicaSets.
  const replicaSetEvents = id.startsWith("Deployment/")
    ? [...tables.events.peek().values()].filter((event) => isOfReplicaSet(event.object, id))
    : [];
  // A standalone pod is its own part.
  return [...new Set([id, ...parts])]
    .flatMap((object) => [...eventsByObject.peek(object).values()])
    .concat(replicaSetEvents);
}

function isOfReplicaSet(object: string, deployment: string): boolean {
  const prefix = `ReplicaSet${deployment.slice(deployment.indexOf("/"))}-`;
  return object.startsWith(prefix) && !object.slice(prefix.length).includes("-");
}

function actionsOf(row: WorkloadRow, { set, owner, pods }: WorkloadParts): ComponentChildren {
  if (!actionsAllowed.value) return undefined;
  const standalonePod = pods.length === 1 && row.kind === "Pod" ? pods[0] : undefined;
  if (set) {
    return (
      <>
        <Scale
          row={row}
          table="sets"
          id={set.id}
          replicas={set.replicas}
          text="Each replica is a gang of its own, placed as a whole."
        />
        <Delete row={row} table="sets" id={set.id} />
        <ActionButtons table="sets" row={{ ...set }} />
      </>
    );
  }
  if (owner) return <OwnerActions row={row} owner={owner} />;
  return standalonePod && <Delete row={row} table="pods" id={standalonePod.id} />;
}

function OwnerActions({ row, owner }: { row: WorkloadRow; owner: OwnerRow }): JSX.Element {
  const { id } = owner;
  const table = OWNERS[owner.kind as keyof typeof OWNERS];
  if (table === "jobs") {
    return (
      <>
        {!owner.finished && owner.suspended && (
          <ActionButton
            title={`Resume ${row.name}?`}
            text="Its pods are created again and wait to be scheduled."
            verb="Resume"
            action={{ action: "resume", table, id }}
          />
        )}
        {!owner.finished && !owner.suspended && (
          <ActionButton
            title={`Suspend ${row.name}?`}
            text={`${pluralize(owner.active ?? 0, "active pod")} ${owner.active === 1 ? "is" : "are"} deleted; work that was not checkpointed is lost.`}
            verb="Suspend"
            action={{ action: "suspend", table, id }}
          />
        )}
        <Delete row={row} table={table} id={id} />
        <ActionButtons table={table} row={{ ...owner }} />
      </>
    );
  }
  return (
    <>
      <Scale
        row={row}
        table={table}
        id={id}
        replicas={owner.replicas}
        text={`Each replica is a pod${owner.gpus ? ` with ${pluralize(owner.gpus, "GPU")}` : ""}.`}
      />
      <ActionButton
        title={`Restart ${row.name}?`}
        text="Its pods are replaced gradually, following its update strategy."
        verb="Restart"
        action={{ action: "restart", table, id }}
      />
      <Delete row={row} table={table} id={id} />
      <ActionButtons table={table} row={{ ...owner }} />
    </>
  );
}

function ActionButton({
  title,
  text,
  verb,
  action,
}: {
  title: string;
  text: string;
  verb: string;
  action: Action;
}): JSX.Element {
  return (
    <button type="button" class="button small" onClick={() => requestConfirmation({ title, text, verb, action })}>
      {verb}…
    </button>
  );
}

function Scale({
  row,
  table,
  id,
  replicas,
  text,
}: {
  row: WorkloadRow;
  table: Action["table"];
  id: string;
  replicas: number;
  text: string;
}): JSX.Element {
  return (
    <button
      type="button"
      class="button small"
      onClick={() =>
        requestConfirmation({
          title: `Scale ${row.name}`,
          text: `Current replicas: ${replicas}. ${text}`,
          verb: "Scale",
          input: { label: "Replicas", minimum: 0 },
          action: { action: "scale", table, id, value: replicas },
        })
      }
    >
      Scale…
    </button>
  );
}

function Delete({ row, table, id }: { row: WorkloadRow; table: Action["table"]; id: string }): JSX.Element {
  const freed = row.gpus ? ` and ${pluralize(row.gpus, "GPU")} released` : "";
  const text =
    table === "pods"
      ? "The pod is deleted and not replaced."
      : `The workload is deleted with its dependents: ${pluralize(row.desired, "pod")}${freed}. This cannot be undone.`;
  return (
    <button
      type="button"
      class="button small danger"
      onClick={() =>
        requestConfirmation({
          title: `Delete ${row.name}?`,
          text,
          verb: "Delete",
          danger: true,
          action: { action: "delete", table, id },
        })
      }
    >
      Delete…
    </button>
  );
}
