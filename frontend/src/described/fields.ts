/** Values of rows by the names of fields, as descriptions refer to them. Pure. */
import type { Column, Format } from "../data/description-types";
import { age, bytes, duration, money, number, percent } from "../lib/format";

/** A row of any table. */
export type DescribedRow = { id: string } & Record<string, unknown>;

/** Splits "Kind/namespace/name", "namespace/name" or "name". */
export function idParts(id: string): { kind: string; namespace: string; name: string } {
  const parts = id.split("/");
  return { name: parts.at(-1) ?? "", namespace: parts.at(-2) ?? "", kind: parts.at(-3) ?? "" };
}

/** The value of a field; the parts of the id are fields of every row. */
export function fieldValue(row: DescribedRow, field: string): unknown {
  const value = row[field];
  if (value !== undefined) return value;
  return field === "name" || field === "namespace" || field === "kind" ? idParts(row.id)[field] : undefined;
}

/** Whether there is nothing to show; zero and "no" are values. */
export function isEmpty(value: unknown): boolean {
  return value === undefined || value === null || value === "" || (Array.isArray(value) && value.length === 0);
}

/** A value as text, for search, filters and charts; `now` is the time that ages count from. */
export function formatValue(value: unknown, format: Format, now = 0): string {
  if (format === "flag") return value === true ? "yes" : "no";
  if (isEmpty(value)) return "";
  if (typeof value === "number") {
    switch (format) {
      case "bytes":
        return bytes(value);
      case "percent":
      case "meter":
        return percent(value);
      case "money":
        return money(value);
      case "duration":
        return duration(value);
      case "age":
        return age(now - value);
      case "number":
        return number(value);
    }
  }
  return Array.isArray(value) ? value.map(String).join(", ") : String(value);
}

/** The sort key of a column: newest first for ages. */
export function sortKey(row: DescribedRow, column: Column): string | number {
  const value = fieldValue(row, column.field);
  if (typeof value === "number") return column.format === "age" ? -value : value;
  if (typeof value === "boolean") return value ? 1 : 0;
  if (isNumeric(column.format)) return column.format === "age" ? Number.MAX_SAFE_INTEGER : -1;
  return formatValue(value, column.format);
}

/** Whether values are aligned right. */
export function isNumeric(format: Format): boolean {
  return ["number", "bytes", "percent", "money", "age", "duration"].includes(format);
}

/** Whether each word occurs in the id or in a column. */
export function matchesText(row: DescribedRow, columns: readonly Column[], text: string): boolean {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return true;
  const values = columns.map((column) => formatValue(fieldValue(row, column.field), column.format));
  const all = `${row.id} ${values.join(" ")}`.toLowerCase();
  return words.every((word) => all.includes(word));
}

/** A text with fields in braces, "on {node}"; undefined if one of them is empty. */
export function fillTemplate(template: string, row: DescribedRow): string | undefined {
  let complete = true;
  const text = template.replace(/{(\w+)}/g, (_, field: string) => {
    const value = fieldValue(row, field);
    complete &&= !isEmpty(value);
    return typeof value === "number" ? number(value) : String(value ?? "");
  });
  return complete ? text : undefined;
}

/** Whether a condition of an action holds: a field is true, or with a leading "!", false. */
export function holds(when: string, row: DescribedRow): boolean {
  if (!when) return true;
  return when.startsWith("!") ? !row[when.slice(1)] : Boolean(row[when]);
}
