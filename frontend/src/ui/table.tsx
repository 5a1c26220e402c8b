/** A table of thousands of rows: only those in sight are drawn. */
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { narrow } from "../media";
import { useQuery } from "../router";
import { Icon } from "./icons";

export interface Column<R> {
  id: string;
  title: string;
  cell: (row: R) => ComponentChildren;
  /** What the column is sorted by; without it, it is not. */
  sort?: (row: R) => string | number;
  /** Width, such as "80px"; columns without one share what is left. */
  width?: string | undefined;
  /** Aligned right. */
  numeric?: boolean;
  /** Not shown on a phone. */
  wideOnly?: boolean;
}

const AROUND = 8;

/** Sorted by the address's `sort` ("name" or "-name"), else in the order given. */
export function Table<R extends { id: string }>({ label, rows, columns, lines = 1, selected, onOpen, empty }: {
  label: string;
  rows: readonly R[];
  columns: Column<R>[];
  /** How many lines a row has room for; two on a phone. */
  lines?: 1 | 2;
  selected?: string | undefined;
  onOpen?: (row: R) => void;
  empty: ComponentChildren;
}): JSX.Element {
  const [order, setOrder] = useQuery("sort");
  const [active, setActive] = useState<string | undefined>(undefined);
  const [view, setView] = useState({ top: 0, height: 900 });
  const box = useRef<HTMLDivElement>(null);
  const phone = narrow.value;
  const height = phone ? 60 : lines === 2 ? 46 : 38;
  const shown = phone ? columns.filter((column) => !column.wideOnly) : columns;
  const sorted = useMemo(() => sortRows(rows, columns, order), [rows, order]);

  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    const look = () => setView({ top: element.scrollTop, height: element.clientHeight });
    look();
    const sizes = new ResizeObserver(look);
    sizes.observe(element);
    element.addEventListener("scroll", look, { passive: true });
    return () => {
      sizes.disconnect();
      element.removeEventListener("scroll", look);
    };
  }, []);
  useEffect(() => {
    if (box.current) box.current.scrollTop = 0;
  }, [order]);

  const first = Math.max(0, Math.floor(view.top / height) - AROUND);
  const last = Math.min(sorted.length, Math.ceil((view.top + view.height) / height) + AROUND);

  const move = (event: KeyboardEvent) => {
    if (event.target !== event.currentTarget) return;
    const at = sorted.findIndex((row) => row.id === active);
    const page = Math.max(1, Math.floor(view.height / height) - 2);
    const steps: Record<string, number> = {
      ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: sorted.length - 1,
    };
    const target = steps[event.key];
    if (target !== undefined) {
      event.preventDefault();
      const next = Math.min(sorted.length - 1, Math.max(0, target));
      setActive(sorted[next]?.id);
      reveal(box.current, next, height);
    } else if (event.key === "Enter" && sorted[at]) onOpen?.(sorted[at]);
  };

  return (
    <div class="table-box" ref={box}>
      <table
        class={`table${onOpen ? " opens" : ""}`}
        role="grid"
        aria-label={label}
        aria-rowcount={sorted.length + 1}
        tabIndex={0}
        aria-activedescendant={active && `row-${active}`}
        onKeyDown={move}
      >
        <colgroup>{shown.map((column) => <col key={column.id} style={{ width: phone && column.width?.endsWith("%") ? undefined : column.width }} />)}</colgroup>
        <thead>
          <tr aria-rowindex={1}>
            {shown.map((column) => <Heading key={column.id} column={column} order={order} setOrder={setOrder} />)}
          </tr>
        </thead>
        <tbody>
          {first > 0 && <tr class="space" aria-hidden="true" style={{ height: `${first * height}px` }} />}
          {sorted.slice(first, last).map((row, at) => (
            <tr
              key={row.id}
              id={`row-${row.id}`}
              aria-rowindex={first + at + 2}
              aria-selected={row.id === selected}
              class={row.id === active ? "active" : undefined}
              style={{ height: `${height}px` }}
              onClick={(event) => {
                if ((event.target as Element).closest("a,button")) return;
                setActive(row.id);
                onOpen?.(row);
              }}
            >
              {shown.map((column) => (
                <td key={column.id} class={column.numeric ? "num" : undefined}>{column.cell(row)}</td>
              ))}
            </tr>
          ))}
          {last < sorted.length && (
            <tr class="space" aria-hidden="true" style={{ height: `${(sorted.length - last) * height}px` }} />
          )}
        </tbody>
      </table>
      {sorted.length === 0 && empty}
    </div>
  );
}

function Heading<R>({ column, order, setOrder }: {
  column: Column<R>;
  order: string;
  setOrder: (order: string) => void;
}): JSX.Element {
  const up = order === column.id;
  const down = order === `-${column.id}`;
  return (
    <th scope="col" class={column.numeric ? "num" : undefined} aria-sort={up ? "ascending" : down ? "descending" : undefined}>
      {column.sort ? (
        <button type="button" class="sorter" onClick={() => setOrder(up ? `-${column.id}` : down ? "" : column.id)}>
          {column.title}
          {(up || down) && <Icon name={up ? "up" : "down"} size={12} />}
        </button>
      ) : (
        column.title
      )}
    </th>
  );
}

function sortRows<R extends { id: string }>(rows: readonly R[], columns: Column<R>[], order: string): readonly R[] {
  const down = order.startsWith("-");
  const by = columns.find((column) => column.id === order.replace(/^-/, ""))?.sort;
  if (!by) return rows;
  const keyed = rows.map((row) => ({ row, key: by(row) }));
  keyed.sort((one, other) => compare(one.key, other.key) * (down ? -1 : 1) || compare(one.row.id, other.row.id));
  return keyed.map((each) => each.row);
}

const collator = new Intl.Collator("en", { numeric: true });

function compare(one: string | number, other: string | number): number {
  if (typeof one === "number" && typeof other === "number") return one - other;
  return collator.compare(String(one), String(other));
}

function reveal(box: HTMLElement | null, index: number, height: number): void {
  if (!box) return;
  const head = box.querySelector("thead")?.clientHeight ?? 0;
  const top = index * height;
  if (top < box.scrollTop) box.scrollTop = top;
  const bottom = top + height + head;
  if (bottom > box.scrollTop + box.clientHeight) box.scrollTop = bottom - box.clientHeight;
}
