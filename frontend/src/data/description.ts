/** What components contribute to the page, from the document that the server sent. */
import type { ActionDescription, Chart, Description, Page, Section } from "./description-types";

const EMPTY: Description = { tables: [], pages: [], sections: {}, actions: [], search: [] };

/** Read once: it does not change while the server runs. */
export const description: Description = readDescription();

function readDescription(): Description {
  const text = globalThis.document?.getElementById?.("description")?.textContent?.trim();
  return text ? (JSON.parse(text) as Description) : EMPTY;
}

const tablesByKind = new Map(description.tables.map((table) => [table.kind, table.name]));
const tablesByWorkloadKind = new Map(description.tables.map((table) => [table.workloadKind, table.name]));
const kindsByTable = new Map(description.tables.map((table) => [table.name, table.kind]));
const pagesByTable = new Map(description.pages.flatMap((page) => (page.table ? [[page.table, page] as const] : [])));

/** The table with the objects of a kind. */
export function tableOfKind(kind: string): string | undefined {
  return tablesByKind.get(kind);
}

/** The table with the objects of a kind as in ids of workloads: "InferenceService.serving.kilonova.dev". */
export function tableOfWorkloadKind(kind: string): string | undefined {
  return tablesByWorkloadKind.get(kind);
}

/** The kind of the objects of a table. */
export function kindOfTable(table: string): string | undefined {
  return kindsByTable.get(table);
}

/** The described page of a table. */
export function pageOfTable(table: string): Page | undefined {
  return pagesByTable.get(table);
}

/** Sections that components add to the details of objects. */
export function sectionsOf(table: string): readonly Section[] {
  return description.sections[table] ?? [];
}

/** Charts above the content of a page. */
export function chartsOf(path: string): readonly Chart[] {
  return description.pages.find((page) => page.path === path)?.charts ?? [];
}

/** Actions with a button in the details of objects. */
export function actionsOf(table: string): readonly ActionDescription[] {
  return description.actions.filter((action) => action.table === table);
}
