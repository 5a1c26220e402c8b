/** Sections of an object's details, as components describe them. */
import type { JSX } from "preact";
import { tableHref } from "../app/links";
import { narrow } from "../app/media";
import { ChartRow } from "../charts/charts";
import { kindOfTable, sectionsOf } from "../data/description";
import type { Column, Entries, Related, Section as SectionDescription } from "../data/description-types";
import type { ConditionRow } from "../data/rows";
import { eventsByObject, tableNamed } from "../data/store";
import { number } from "../lib/format";
import { Conditions } from "../ui/conditions";
import { EventList } from "../ui/event-list";
import { LiveObject } from "../ui/live-object";
import { Facts, Section } from "../ui/panel";
import { areLoaded } from "../ui/table-notices";
import { Cell, RowLink } from "./cell";
import { type DescribedRow, fieldValue, isEmpty, isNumeric } from "./fields";

const MAX_RELATED = 50;

/** The sections that components add to the details of an object with a page of its own. */
export function ContributedSections({ table, id }: { table: string; id: string }): JSX.Element | null {
  const sections = sectionsOf(table);
  const row = sections.length ? tableNamed(table).get(id) : undefined;
  return row ? <Sections table={table} row={row} sections={sections} /> : null;
}

export function Sections({
  table,
  row,
  sections,
}: {
  table: string;
  row: DescribedRow;
  sections: readonly SectionDescription[];
}): JSX.Element {
  return (
    <>
      {sections.map((section, at) => (
        <OneSection key={at} table={table} row={row} section={section} />
      ))}
    </>
  );
}

function OneSection({
  table,
  row,
  section,
}: {
  table: string;
  row: DescribedRow;
  section: SectionDescription;
}): JSX.Element | null {
  switch (section.type) {
    case "fields": {
      const of = section.table ? tableNamed(section.table).get(row.id) : row;
      if (!of) return null;
      const facts = <FieldFacts row={of} fields={section.fields} />;
      return section.title ? <Section title={section.title}>{facts}</Section> : facts;
    }
    case "conditions": {
      const conditions = fieldValue(row, section.field) as ConditionRow[] | undefined;
      return conditions?.length ? (
        <Section title={section.title}>
          <Conditions conditions={conditions} />
        </Section>
      ) : null;
    }
    case "events":
      return (
        <Section title={section.title}>
          <EventList events={[...eventsByObject.get(objectOf(table, row)).values()]} />
        </Section>
      );
    case "related":
      return <RelatedRows table={table} row={row} section={section} />;
    case "entries":
      return <EntryRows row={row} section={section} />;
    case "charts":
      return (
        <Section title={section.title}>
          <ChartRow charts={section.charts} id={row.id} />
        </Section>
      );
    case "object":
      return <LiveObject table={table} id={row.id} title={section.title} />;
  }
}

function FieldFacts({ row, fields }: { row: DescribedRow; fields: readonly Column[] }): JSX.Element {
  return (
    <Facts
      of={fields.map((field) => [
        field.title,
        field.format !== "flag" && isEmpty(fieldValue(row, field.field)) ? undefined : (
          <Cell row={row} column={field} />
        ),
      ])}
    />
  );
}

function RelatedRows({ table, row, section }: { table: string; row: DescribedRow; section: Related }): JSX.Element {
  const wanted = section.equals === "object" ? objectOf(table, row) : fieldValue(row, section.equals);
  const found: DescribedRow[] = [];
  for (const each of tableNamed(section.table).all.values())
    if (fieldValue(each, section.by) === wanted) found.push(each);
  const columns = shownColumns(section.columns);
  if (found.length === 0)
    return (
      <Section title={section.title}>
        <p class="faint">{areLoaded([section.table]) ? "None." : "Unknown."}</p>
      </Section>
    );
  return (
    <Section title={section.title} aside={number(found.length)}>
      <table class="plain">
        <Header columns={columns} />
        <tbody>
          {found.slice(0, MAX_RELATED).map((each) => (
            <tr key={each.id}>
              {columns.map((column, at) => (
                <td key={column.field} class={isNumeric(column.format) ? "num" : undefined}>
                  {at === 0 ? (
                    <RowLink row={each} column={column} href={tableHref(section.table, each.id)} />
                  ) : (
                    <Cell row={each} column={column} />
                  )}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {found.length > MAX_RELATED && <p class="faint">and {number(found.length - MAX_RELATED)} more</p>}
    </Section>
  );
}

function EntryRows({ row, section }: { row: DescribedRow; section: Entries }): JSX.Element | null {
  const entries = (fieldValue(row, section.field) ?? []) as Record<string, unknown>[];
  if (entries.length === 0) return null;
  const columns = shownColumns(section.columns);
  return (
    <Section title={section.title} aside={number(entries.length)}>
      <table class="plain">
        <Header columns={columns} />
        <tbody>
          {entries.map((entry, at) => (
            <tr key={at}>
              {columns.map((column) => (
                <td key={column.field} class={isNumeric(column.format) ? "num" : undefined}>
                  <Cell row={{ ...entry, id: String(at) }} column={column} />
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </Section>
  );
}

/** Those that fit. */
function shownColumns(columns: readonly Column[]): readonly Column[] {
  return narrow.value ? columns.filter((column) => column.shown === "always") : columns;
}

function Header({ columns }: { columns: readonly Column[] }): JSX.Element {
  return (
    <thead>
      <tr>
        {columns.map((column) => (
          <th key={column.field} class={isNumeric(column.format) ? "num" : undefined}>
            {column.title}
          </th>
        ))}
      </tr>
    </thead>
  );
}

/** The object as events name it: "Kind/namespace/name". */
function objectOf(table: string, row: DescribedRow): string {
  const kind = kindOfTable(table);
  return kind ? `${kind}/${row.id}` : row.id;
}
