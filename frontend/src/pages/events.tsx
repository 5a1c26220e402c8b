/** Recent events, newest first. */
import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { objectHref } from "../app/links";
import { narrow } from "../app/media";
import { navigate, setQuery, useQuery } from "../app/router";
import { type EventGroup, groupEvents, matchesFilter } from "../data/events";
import type { EventRow } from "../data/rows";
import { tables } from "../data/store";
import { number, pluralize } from "../lib/format";
import { Age, distinct, Empty, FilterSelect, filterOptions, SearchBox, Toggle } from "../ui/controls";
import { Icon } from "../ui/icons";
import { PageFrame } from "../ui/page";
import { State } from "../ui/state";
import { type Column, Table } from "../ui/table";
import { areLoaded, NotFoundNotice } from "../ui/table-notices";

const TABLES = ["events"] as const;

const columns: Column<EventGroup>[] = [
  {
    id: "age",
    title: "Age",
    width: "64px",
    numeric: true,
    sort: (row) => -row.last,
    cell: (row) => <Age since={row.last} />,
  },
  {
    id: "type",
    title: "Type",
    width: "100px",
    wideOnly: true,
    sort: (row) => row.type,
    cell: (row) => <Type of={row} />,
  },
  {
    id: "reason",
    title: "Reason",
    width: "190px",
    wideOnly: true,
    sort: (row) => row.reason,
    cell: (row) => (
      <span class="strong" title={row.reason}>
        {row.reason}
      </span>
    ),
  },
  {
    id: "object",
    title: "Object",
    width: "22%",
    wideOnly: true,
    sort: (row) => row.object,
    cell: (row) => <ObjectLink row={row} />,
  },
  { id: "message", title: "Message", cell: (row) => <Message row={row} /> },
  {
    id: "count",
    title: "Times",
    width: "64px",
    numeric: true,
    sort: (row) => row.count,
    cell: (row) => (row.count > 1 ? number(row.count) : <span class="faint">1</span>),
  },
];

/** The newest 500 of the cluster, live unless paused. */
export default function Events(): JSX.Element {
  const [paused, setPaused] = useState<readonly EventRow[] | undefined>(undefined);
  const [q] = useQuery("q");
  const [type] = useQuery("type");
  const [reason] = useQuery("reason");
  const [kind] = useQuery("kind");
  const [group] = useQuery("group");
  const version = tables.events.version.value;
  const all = useMemo(() => paused ?? [...tables.events.peek().values()], [paused, version]);
  const shown = useMemo(
    () =>
      groupEvents(
        all.filter((event) => matchesFilter(event, { q, type, reason, kind })),
        group === "1",
      ),
    [all, q, type, reason, kind, group],
  );
  const missed = paused ? countNewer(paused) : 0;
  return (
    <PageFrame
      title="Events"
      tables={TABLES}
      summary={
        areLoaded(TABLES) &&
        (paused
          ? `paused, ${pluralize(missed, "newer event")}`
          : `${number(shown.length)}${shown.length === all.length ? "" : ` of ${number(all.length)}`}`)
      }
      filters={
        <>
          <SearchBox label="Filter events" />
          <button
            type="button"
            class="toggle"
            aria-pressed={paused !== undefined}
            onClick={() => setPaused(paused ? undefined : all)}
          >
            <Icon name={paused ? "play" : "pause"} size={12} />
            {paused ? "Resume" : "Pause"}
          </button>
          <Toggle name="group" label="Group" />
          <FilterSelect label="Type" name="type" options={filterOptions("All types", ["Normal", "Warning"])} />
          <FilterSelect
            label="Kind of object"
            name="kind"
            options={filterOptions("All objects", distinct(all.map((event) => event.object.split("/")[0] ?? "")))}
          />
          <FilterSelect
            label="Reason"
            name="reason"
            options={filterOptions("All reasons", distinct(all.map((event) => event.reason)))}
          />
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
          areLoaded(TABLES) ? (
            <Empty title={all.length ? "No matching events" : "No recent events"}>
              {all.length > 0 && "Clear a filter to see more."}
            </Empty>
          ) : (
            <NotFoundNotice of={TABLES} what="Events" />
          )
        }
      />
    </PageFrame>
  );
}

/** Opens the object of an event; for a group, lists its events. */
function open(row: EventGroup): void {
  const href = objectHref(row.object);
  if (row.objects > 1)
    setQuery({ group: undefined, type: row.type, reason: row.reason, kind: row.object.split("/")[0] });
  else if (href) navigate(href);
}

function Type({ of }: { of: { type: string } }): JSX.Element {
  return <State tone={of.type === "Warning" ? "warn" : "idle"}>{of.type}</State>;
}

function ObjectLink({ row }: { row: EventGroup }): JSX.Element {
  if (row.objects > 1) return <span class="muted">{pluralize(row.objects, "object")}</span>;
  const [kind, ...rest] = row.object.split("/");
  const href = objectHref(row.object);
  return (
    <div class="two-lines" title={row.object}>
      {href ? (
        <a tabIndex={-1} href={href}>
          {rest.at(-1)}
        </a>
      ) : (
        <span>{rest.at(-1)}</span>
      )}
      <span class="faint small">
        {kind}
        {rest.length > 1 && ` in ${rest[0]}`}
      </span>
    </div>
  );
}

function Message({ row }: { row: EventGroup }): JSX.Element {
  if (!narrow.value)
    return (
      <span class="clamp muted" title={row.message}>
        {row.message}
      </span>
    );
  return (
    <div class="two-lines">
      <span>
        <b class={row.type === "Warning" ? "warning-text" : ""}>{row.reason}</b>{" "}
        <span class="faint">{row.object.split("/").at(-1)}</span>
      </span>
      <span class="muted">{row.message}</span>
    </div>
  );
}

function countNewer(paused: readonly EventRow[]): number {
  const known = new Map(paused.map((event) => [event.id, event.last]));
  let count = 0;
  for (const event of tables.events.peek().values()) if (known.get(event.id) !== event.last) count++;
  return count;
}
