/** The part of a long table that is in sight. All its rows have the same height. */

/** Rows drawn before and after those in sight, and how many are added at once. */
const AROUND = 8;
const STEP = 4;

/** The rows to draw: from `first` to before `last`. */
export interface Window {
  first: number;
  last: number;
}

/** Which rows to draw; `seen` itself where that is still right. */
export function inSight(box: HTMLElement, height: number, seen: Window): Window {
  const step = STEP * height;
  const first = Math.max(0, Math.floor(box.scrollTop / step) * STEP - AROUND);
  const last = Math.ceil((box.scrollTop + box.clientHeight) / step) * STEP + AROUND;
  return first === seen.first && last === seen.last ? seen : { first, last };
}

/** By how many places most of the rows from `first` on moved: others may have come above them. */
export function shift<R extends { id: string }>(before: readonly R[], after: readonly R[], first: number): number {
  if (before === after) return 0;
  const places = new Map(before.slice(first, first + 20).map((row, at) => [row.id, first + at]));
  const counts = new Map<number, number>();
  after.forEach((row, at) => {
    const from = places.get(row.id);
    if (from !== undefined) counts.set(at - from, (counts.get(at - from) ?? 0) + 1);
  });
  return [...counts].reduce((most, each) => (each[1] > most[1] ? each : most), [0, 0])[0];
}

/** Scrolls just as far as it takes to see a row. */
export function reveal(box: HTMLElement | null, index: number, height: number): void {
  if (!box) return;
  const head = box.querySelector("thead")?.clientHeight ?? 0;
  const top = index * height;
  if (top < box.scrollTop) box.scrollTop = top;
  const bottom = top + height + head;
  if (bottom > box.scrollTop + box.clientHeight) box.scrollTop = bottom - box.clientHeight;
}
