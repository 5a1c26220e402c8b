/** The visible range of a virtualised table. All rows have the same height. */

/** Rows rendered before and after the visible ones, and the granularity of the range. */
const OVERSCAN = 8;
const STEP = 4;

/** The rows to render: from `first` to before `last`. */
export interface RowRange {
  first: number;
  last: number;
}

/** The rows to render; `current` itself if unchanged. */
export function visibleRange(box: HTMLElement, height: number, current: RowRange): RowRange {
  const step = STEP * height;
  const first = Math.max(0, Math.floor(box.scrollTop / step) * STEP - OVERSCAN);
  const last = Math.ceil((box.scrollTop + box.clientHeight) / step) * STEP + OVERSCAN;
  return first === current.first && last === current.last ? current : { first, last };
}

/** By how many positions most rows from `first` on moved, because rows were added or removed above. */
export function rowOffset<R extends { id: string }>(before: readonly R[], after: readonly R[], first: number): number {
  if (before === after) return 0;
  const positions = new Map(before.slice(first, first + 20).map((row, at) => [row.id, first + at]));
  const counts = new Map<number, number>();
  after.forEach((row, at) => {
    const from = positions.get(row.id);
    if (from !== undefined) counts.set(at - from, (counts.get(at - from) ?? 0) + 1);
  });
  return [...counts].reduce((most, each) => (each[1] > most[1] ? each : most), [0, 0])[0];
}

/** Scrolls a row into view. */
export function scrollToRow(box: HTMLElement | null, index: number, height: number): void {
  if (!box) return;
  const head = box.querySelector("thead")?.clientHeight ?? 0;
  const top = index * height;
  if (top < box.scrollTop) box.scrollTop = top;
  const bottom = top + height + head;
  if (bottom > box.scrollTop + box.clientHeight) box.scrollTop = bottom - box.clientHeight;
}
