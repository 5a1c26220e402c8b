/** Values of charts: stacking, histograms, and their alternatives in text. Pure. */

/** A value, or nothing where it is unknown. */
export type Value = number | null | undefined;

/** A named line of a chart; its values belong to the times or positions of the chart. */
export interface LineData {
  title: string;
  values: readonly Value[];
}

/** Each line added to those before; unknown where one of them is. */
export function stackValues(lines: readonly (readonly Value[])[]): Value[][] {
  const stacked: Value[][] = [];
  for (const line of lines) {
    const below = stacked.at(-1);
    stacked.push(line.map((value, at) => (below ? add(value, below[at]) : value)));
  }
  return stacked;
}

function add(one: Value, other: Value): Value {
  return typeof one === "number" && typeof other === "number" ? one + other : null;
}

/** The last known value. */
export function lastValue(values: readonly Value[]): number | undefined {
  for (let at = values.length - 1; at >= 0; at--) {
    const value = values[at];
    if (typeof value === "number") return value;
  }
  return undefined;
}

/** "Allocated: 96 now, 0 to 104." for each line, as the text of a chart. */
export function summarize(lines: readonly LineData[], format: (value: number) => string): string {
  return lines
    .map(({ title, values }) => {
      const known = values.filter((value): value is number => typeof value === "number");
      const last = known.at(-1);
      if (last === undefined) return `${title}: unknown.`;
      const least = format(Math.min(...known));
      const most = format(Math.max(...known));
      return `${title}: ${format(last)} now${least === most ? "" : `, ${least} to ${most}`}.`;
    })
    .join(" ");
}

/** At most `count` positions of `length`, evenly distributed, the last one first. */
export function evenPositions(length: number, count: number): number[] {
  if (length <= count) return Array.from({ length }, (_, at) => length - 1 - at);
  const step = (length - 1) / (count - 1);
  return Array.from({ length: count }, (_, at) => Math.round((count - 1 - at) * step));
}

export interface Bucket {
  from: number;
  to: number;
  count: number;
}

/** Equal buckets from the least to the greatest value; whole numbers have buckets of whole numbers. */
export function histogramBuckets(values: readonly number[], buckets: number): Bucket[] {
  if (values.length === 0) return [];
  let least = Infinity;
  let most = -Infinity;
  for (const value of values) {
    least = Math.min(least, value);
    most = Math.max(most, value);
  }
  const whole = values.every(Number.isInteger);
  const range = whole ? most - least + 1 : most - least || 1;
  const width = whole ? Math.ceil(range / buckets) : range / buckets;
  const count = whole ? Math.ceil(range / width) : buckets;
  const found = Array.from({ length: count }, (_, at) => ({
    from: least + at * width,
    to: least + (at + 1) * width - (whole ? 1 : 0),
    count: 0,
  }));
  for (const value of values) {
    const bucket = found[Math.min(count - 1, Math.floor((value - least) / width))];
    if (bucket) bucket.count++;
  }
  return found;
}
