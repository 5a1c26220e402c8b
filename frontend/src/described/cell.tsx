/** The value of a field, as its column describes it. */
import type { JSX } from "preact";
import { objectHref, tableHref } from "../app/links";
import { now } from "../data/clock";
import type { Column } from "../data/description-types";
import { formatMoment, percent } from "../lib/format";
import { Age, Meter } from "../ui/controls";
import { Badge, State } from "../ui/state";
import { type DescribedRow, fieldValue, formatValue, isEmpty } from "./fields";

/** A dash where there is no value. */
export function Cell({ row, column }: { row: DescribedRow; column: Column }): JSX.Element {
  const value = fieldValue(row, column.field);
  if (column.format !== "flag" && isEmpty(value)) return <span class="faint">–</span>;
  const shown = <Value value={value} column={column} />;
  const href = hrefOf(value, column.link);
  return href ? (
    <a class="link" tabIndex={-1} href={href}>
      {shown}
    </a>
  ) : (
    shown
  );
}

/** The value of the first column, which links to the object of the row. */
export function RowLink({
  row,
  column,
  href,
}: {
  row: DescribedRow;
  column: Column;
  href: string | undefined;
}): JSX.Element {
  const shown = <Cell row={row} column={{ ...column, link: "" }} />;
  return href ? (
    <a class="strong ellipsis" tabIndex={-1} href={href}>
      {shown}
    </a>
  ) : (
    shown
  );
}

function Value({ value, column }: { value: unknown; column: Column }): JSX.Element {
  const { format } = column;
  const text = formatValue(value, format);
  switch (format) {
    case "state":
      return <State tone={column.tones[text] ?? "idle"}>{text}</State>;
    case "code":
      return <code title={text}>{text}</code>;
    case "flag":
      return <span class={value ? undefined : "faint"}>{text}</span>;
    case "age":
      return <Age since={Number(value)} />;
    case "time":
      return <time>{formatMoment(Number(value), now.peek())}</time>;
    case "meter":
      return (
        <span class="cell-line">
          <Meter share={Number(value)} label={`${column.title}: ${text}`} />
          <span class="num">{percent(Number(value))}</span>
        </span>
      );
    case "list":
      return (
        <span class="chips">
          {(value as unknown[]).map((each) => (
            <Badge key={String(each)}>{String(each)}</Badge>
          ))}
        </span>
      );
    case "url":
      return isWebAddress(text) ? (
        <a class="link" href={text} target="_blank" rel="noreferrer">
          {text}
        </a>
      ) : (
        <span>{text}</span>
      );
    case "text":
      return <span title={text}>{text}</span>;
    default:
      return <span>{text}</span>;
  }
}

/** Objects name addresses: one of another scheme could run a script. */
function isWebAddress(text: string): boolean {
  return /^https?:\/\//.test(text);
}

function hrefOf(value: unknown, link: string): string | undefined {
  if (!link || typeof value !== "string") return undefined;
  return link === "object" ? objectHref(value) : tableHref(link, value);
}
