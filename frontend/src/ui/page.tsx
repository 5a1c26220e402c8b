/** The frame of a page: title, filters, content, details panel. */
import type { ComponentChildren, JSX } from "preact";
import { narrow } from "../app/media";
import { ComponentNotices } from "./component-notices";
import { TableNotices } from "./table-notices";

/** The head is fixed, the content scrolls; a panel opens beside it, on a phone over it. */
export function PageFrame({
  title,
  tables,
  summary,
  filters,
  panel,
  children,
}: {
  title: string;
  /** Tables that the page shows; notices name those that cannot be read. */
  tables: readonly string[];
  summary?: ComponentChildren;
  filters?: ComponentChildren;
  panel?: ComponentChildren;
  children: ComponentChildren;
}): JSX.Element {
  return (
    <div class={panel ? "page with-panel" : "page"}>
      <div class="page-main" inert={narrow.value && Boolean(panel)}>
        <header class="page-head">
          <h1>{title}</h1>
          {summary && <p class="summary">{summary}</p>}
          {filters && <div class="filters">{filters}</div>}
        </header>
        <ComponentNotices />
        <TableNotices of={tables} />
        <div class="page-body">{children}</div>
      </div>
      {panel}
    </div>
  );
}
