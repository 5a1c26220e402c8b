/** What happened of late, newest first. */
import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { objectHref } from "../links";
import { narrow } from "../media";
import { go, setQuery, useQuery } from "../router";
import type { EventRow } from "../rows";
import { tables } from "../store";
import { counted, number } from "../format";
import { Age, Choice, choices, different, Empty, SearchBox, Toggle } from "../ui/bits";
import { Icon } from "../ui/icons";
import { PageFrame } from "../ui/page";
import { State } from "../ui/state";
import { Table, type Column } from "../ui/table";
import { areKnown, NotThere } from "../ui/unread";
import { grouped, matching, type EventGroup } from "../events";

const TABLES = ["events"] as const;

const columns: Column<EventGroup>[] = [
  { id: "age", title: "Age", width: "64px", numeric: true, sort: (row) => -row.last, cell: (row) => <Age since={row.last} /> },
  { id: "type", title: "Type", width: "100px", wideOnly: true, sort: (row) => row.type, cell: (row) => <Type of={row} /> },
  { id: "reason", title: "Reason", width: "190px", wideOnly: true, sort: (row) => row.reason, cell: (row) => <span class="strong" title={row.reason}>{row.reason}</span> },
  { id: "object", title: "Object", width: "22%", wideOnly: true, sort: (row) => row.object, cell: (row) => <ObjectLink row={row} /> },
  { id: "message", title: "Message", cell: (row) => <Message row={row} /> },
  { id: "count", title: "Times", width: "64px", numeric: true, sort: (row) => row.count, cell: (row) => (row.count > 1 ? number(row.count) : <span class="faint">1</span>) },
];

/** The newest 500 of the cluster, live unless paused. */
export function Events(): JSX.Element {
  const [paused, setPaused] = useState<readonly EventRow[] | undefined>(undefined);
  const [q] = useQuery("q");
  const [type] = useQuery("type");
  const [reason] = useQuery("reason");
  const [kind] = useQuery("kind");
  const [group] = useQuery("group");
  const version = tables.events.version.value;
  const all = useMemo(() => paused ?? [...tables.events.peek().values()], [paused, version]);
  const shown = useMemo(
    () => grouped(all.filter((event) => matching(event, { q, type, reason, kind })), group === "1"),
    [all, q, type, reason, kind, group],
  );
  const missed = paused ? newer(paused) : 0;
  return (
    <PageFrame
      title="Events"
      tables={TABLES}
      summary={areKnown(TABLES) && (paused ? `paused, ${counted(missed, "newer one")}` : `${number(shown.length)}${shown.length === all.length ? "" : ` of ${number(all.length)}`}`)}
      filters={
        <>
          <SearchBox label="Filter events" />
          <button type="button" class="toggle" aria-pressed={paused !== undefined} onClick={() => setPaused(paused ? undefined : all)}>
            <Icon name={paused ? "play" : "pause"} size={12} />
            {paused ? "Go on" : "Pause"}
          </button>
          <Toggle name="group" label="Group" />
          <Choice label="Type" name="type" options={choices("All types", ["Normal", "Warning"])} />
          <Choice label="Kind of object" name="kind" options={choices("All objects", different(all.map((event) => event.object.split("/")[0] ?? "")))} />
          <Choice label="Reason" name="reason" options={choices("All reasons", different(all.map((event) => event.reason)))} />
        </>
      }
    >
      <Table
        label="Events"
        lines={2}
        rows={shown}
        columns={columns}
        onOpen={open}
        empty={
          areKnown(TABLES) ? (
            <Empty title={all.length ? "No event is like that" : "Nothing has happened of late"}>{all.length > 0 && "Take a filter away."}</Empty>
          ) : (
            <NotThere of={TABLES} what="Events" />
          )
        }
      />
    </PageFrame>
  );
}

/** Goes to the object of an event; of a group, shows its events. */
function open(row: EventGroup): void {
  const href = objectHref(row.object);
  if (row.objects > 1) setQuery({ group: undefined, type: row.type, reason: row.reason, kind: row.object.split("/")[0] });
  else if (href) go(href);
}

function Type({ of }: { of: { type: string } }): JSX.Element {
  return <State tone={of.type === "Warning" ? "warn" : "idle"}>{of.type}</State>;
}

function ObjectLink({ row }: { row: EventGroup }): JSX.Element {
  if (row.objects > 1) return <span class="muted">{counted(row.objects, "object")}</span>;
  const [kind, ...rest] = row.object.split("/");
  const href = objectHref(row.object);
  return (
    <div class="two-lines" title={row.object}>
      {href ? <a tabIndex={-1} href={href}>{rest.at(-1)}</a> : <span>{rest.at(-1)}</span>}
      <span class="faint small">{kind}{rest.length > 1 && ` in ${rest[0]}`}</span>
    </div>
  );
}

function Message({ row }: { row: EventGroup }): JSX.Element {
  if (!narrow.value) return <span class="clamp muted" title={row.message}>{row.message}</span>;
  return (
    <div class="two-lines">
      <span><b class={row.type === "Warning" ? "warning-text" : ""}>{row.reason}</b> <span class="faint">{row.object.split("/").at(-1)}</span></span>
      <span class="muted">{row.message}</span>
    </div>
  );
}

function newer(paused: readonly EventRow[]): number {
  const known = new Map(paused.map((event) => [event.id, event.last]));
  let found = 0;
  for (const event of tables.events.peek().values()) if (known.get(event.id) !== event.last) found++;
  return found;
}
