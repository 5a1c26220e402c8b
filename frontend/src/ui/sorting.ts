/** Sorting of tables. */

/** A sortable column, named as in the address. */
interface Sorted<R> {
  id: string;
  sort?: (row: R) => string | number;
}

/** Sorts by the column that `order` names ("name", or "-name" for descending), else keeps the order. */
export function sortRows<R extends { id: string }>(
  rows: readonly R[],
  columns: readonly Sorted<R>[],
  order: string,
): readonly R[] {
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
