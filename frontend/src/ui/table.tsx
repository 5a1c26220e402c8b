/** A virtualised table of thousands of rows: only visible ones are rendered. */
import { Component, type ComponentChildren, type JSX } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { narrow, tight } from "../app/media";
import { useQuery } from "../app/router";
import { Icon } from "./icons";
import { sortRows } from "./sorting";
import { rowOffset, scrollToRow, visibleRange } from "./virtual-rows";

export interface Column<R> {
  id: string;
  title: string;
  cell: (row: R) => ComponentChildren;
  /** The sort key; without it the column is not sortable. */
  sort?: (row: R) => string | number;
  /** Width, such as "80px"; columns without one share the rest. */
  width?: string | undefined;
  /** Aligned right. */
  numeric?: boolean;
  /** Not shown on a phone. */
  wideOnly?: boolean;
  /** Shown only at full width. */
  fullWidthOnly?: boolean;
}

/** Prefix of the element ids of rows. */
const ROW_ID_PREFIX = "row-";

/** Sorted by the address's `sort` ("name" or "-name"), else in the order given. */
export function Table<R extends { id: string }>({
  label,
  rows,
  columns,
  lines = 1,
  selected,
  onOpen,
  empty,
}: {
  label: string;
  rows: readonly R[];
  columns: Column<R>[];
  /** Lines per row; two on a phone. */
  lines?: 1 | 2;
  selected?: string | undefined;
  onOpen?: (row: R) => void;
  empty: ComponentChildren;
}): JSX.Element {
  const [order, setOrder] = useQuery("sort");
  const [active, setActive] = useState<string | undefined>(undefined);
  const [view, setView] = useState({ first: 0, last: 40 });
  const box = useRef<HTMLDivElement>(null);
  const phone = narrow.value;
  const height = phone ? 60 : lines === 2 ? 46 : 38;
  const isTight = tight.value;
  const shown = useMemo(
    () => columns.filter((column) => !(phone && column.wideOnly) && !(isTight && column.fullWidthOnly)),
    [columns, phone, isTight],
  );
  const sorted = useMemo(() => sortRows(rows, columns, order), [rows, order]);
  const before = useRef(sorted);

  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    const update = () => setView((current) => visibleRange(element, height, current));
    update();
    const sizes = new ResizeObserver(update);
    sizes.observe(element);
    element.addEventListener("scroll", update, { passive: true });
    return () => {
      sizes.disconnect();
      element.removeEventListener("scroll", update);
    };
  }, [height]);
  useLayoutEffect(() => {
    const element = box.current;
    const moved =
      element && element.scrollTop >= height
        ? rowOffset(before.current, sorted, Math.floor(element.scrollTop / height))
        : 0;
    before.current = sorted;
    if (element && moved) {
      element.scrollTop += moved * height;
      setView((current) => visibleRange(element, height, current));
    }
  }, [sorted]);
  useEffect(() => {
    if (box.current) box.current.scrollTop = 0;
  }, [order]);

  const first = Math.min(view.first, sorted.length);
  const last = Math.min(view.last, sorted.length);

  const move = (event: KeyboardEvent) => {
    if (event.target !== event.currentTarget) return;
    const at = sorted.findIndex((row) => row.id === active);
    const page = Math.max(1, Math.floor((box.current?.clientHeight ?? 0) / height) - 2);
    const steps: Record<string, number> = {
      ArrowDown: at + 1,
      ArrowUp: at - 1,
      PageDown: at + page,
      PageUp: at - page,
      Home: 0,
      End: sorted.length - 1,
    };
    const target = steps[event.key];
    if (target !== undefined) {
      event.preventDefault();
      const next = Math.min(sorted.length - 1, Math.max(0, target));
      setActive(sorted[next]?.id);
      scrollToRow(box.current, next, height);
    } else if (event.key === "Enter" && sorted[at]) onOpen?.(sorted[at]);
  };

  const press = (event: MouseEvent) => {
    const target = event.target as Element;
    const id = target.closest("tr")?.id.slice(ROW_ID_PREFIX.length);
    const row = sorted.find((each) => each.id === id);
    if (!row || target.closest("a,button")) return;
    setActive(row.id);
    onOpen?.(row);
  };

  return (
    <div class="table-box" ref={box}>
      <table
        class={`table${onOpen ? " opens" : ""}`}
        role="grid"
        aria-label={label}
        aria-rowcount={sorted.length + 1}
        tabIndex={0}
        data-arrows
        aria-activedescendant={active && ROW_ID_PREFIX + active}
        onKeyDown={move}
      >
        <colgroup>
          {shown.map((column) => (
            <col key={column.id} style={{ width: phone && column.width?.endsWith("%") ? undefined : column.width }} />
          ))}
        </colgroup>
        <thead>
          <tr aria-rowindex={1}>
            {shown.map((column) => (
              <Heading key={column.id} column={column} order={order} setOrder={setOrder} />
            ))}
          </tr>
        </thead>
        <tbody onClick={press}>
          {first > 0 && <tr class="space" aria-hidden="true" style={{ height: `${first * height}px` }} />}
          {sorted.slice(first, last).map((row, at) => (
            <Row
              key={row.id}
              row={row}
              index={first + at}
              columns={shown}
              height={height}
              active={row.id === active}
              selected={row.id === selected}
            />
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

interface RowProps<R> {
  row: R;
  index: number;
  columns: readonly Column<R>[];
  height: number;
  active: boolean;
  selected: boolean;
}

/** Rendered only if its properties changed: scrolling does not render rows that stay. */
class Row<R extends { id: string }> extends Component<RowProps<R>> {
  override shouldComponentUpdate(next: RowProps<R>, state: unknown): boolean {
    const { props } = this;
    return (
      state !== this.state || (Object.keys(next) as (keyof RowProps<R>)[]).some((name) => next[name] !== props[name])
    );
  }

  override render({ row, index, columns, height, active, selected }: RowProps<R>): JSX.Element {
    return (
      <tr
        id={ROW_ID_PREFIX + row.id}
        aria-rowindex={index + 2}
        aria-selected={selected}
        class={active ? "active" : undefined}
        style={{ height: `${height}px` }}
      >
        {columns.map((column) => (
          <td key={column.id} class={column.numeric ? "num" : undefined}>
            {column.cell(row)}
          </td>
        ))}
      </tr>
    );
  }
}

function Heading<R>({
  column,
  order,
  setOrder,
}: {
  column: Column<R>;
  order: string;
  setOrder: (order: string) => void;
}): JSX.Element {
  const up = order === column.id;
  const down = order === `-${column.id}`;
  return (
    <th
      scope="col"
      class={column.numeric ? "num" : undefined}
      aria-sort={up ? "ascending" : down ? "descending" : undefined}
    >
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
