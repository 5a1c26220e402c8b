/** The frame of a page: its title, what filters it, and what it shows. */
import type { ComponentChildren, JSX } from "preact";
import { narrow } from "../media";
import type { TableName } from "../rows";
import { Unread } from "./unread";

/** The head stays, the content scrolls; a panel goes beside it, and on a phone above all of it. */
export function PageFrame({ title, tables, summary, filters, panel, children }: {
  title: string;
  /** What the page is made of; it says which of them cannot be read. */
  tables: readonly TableName[];
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
        <Unread of={tables} />
        <div class="page-body">{children}</div>
      </div>
      {panel}
    </div>
  );
}
