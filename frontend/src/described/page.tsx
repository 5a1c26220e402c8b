/** A page that a component describes: a table with filters, and the details of a row. */
import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { tableHref } from "../app/links";
import { narrow } from "../app/media";
import { navigate, pathBelow, query, withQuery } from "../app/router";
import { PageCharts } from "../charts/charts";
import { kindOfTable, sectionsOf } from "../data/description";
import type { Column, Page } from "../data/description-types";
import { tableNamed } from "../data/store";
import { number } from "../lib/format";
import { distinct, Empty, FilterSelect, filterOptions, SearchBox } from "../ui/controls";
import { PageFrame } from "../ui/page";
import { Panel } from "../ui/panel";
import { sortRows } from "../ui/sorting";
import { Table, type Column as TableColumn } from "../ui/table";
import { areLoaded, NotFoundNotice } from "../ui/table-notices";
import { ActionButtons } from "./actions";
import { Cell, RowLink } from "./cell";
import { type DescribedRow, fieldValue, formatValue, idParts, isNumeric, matchesText, sortKey } from "./fields";
import { Sections } from "./sections";

/** The details of a row are at the path of the page, followed by its id. */
export function DescribedPage({ page }: { page: Page }): JSX.Element {
  const table = tableNamed(page.table);
  const params = query.value;
  const selected = pathBelow(page.path).join("/") || undefined;
  const columns = useMemo(() => tableColumns(page), [page]);
  const compact = useMemo(() => compactColumns(columns), [columns]);
  const filters = page.columns.filter((column) => column.filter);
  const version = table.version.value;
  const shown = useMemo(() => {
    const q = params.get("q") ?? "";
    const matching = [...table.peek().values()].filter(
      (row) =>
        matchesText(row, page.columns, q) &&
        filters.every((column) => {
          const wanted = params.get(column.field);
          return !wanted || formatValue(fieldValue(row, column.field), column.format) === wanted;
        }),
    );
    return sortRows(matching, columns, page.sort);
  }, [version, params, page]);
  const all = table.peek();
  return (
    <PageFrame
      title={page.title}
      tables={[page.table]}
      summary={
        areLoaded([page.table]) &&
        (shown.length === all.size ? number(all.size) : `${number(shown.length)} of ${number(all.size)}`)
      }
      filters={
        <>
          <SearchBox label={`Filter ${page.title.toLowerCase()}`} />
          {filters.map((column) => (
            <FilterSelect
              key={column.field}
              label={column.title}
              name={column.field}
              options={filterOptions(`${column.title}: all`, distinctValues(all.values(), column))}
            />
          ))}
        </>
      }
      panel={
        selected && <Details key={selected} page={page} id={selected} onClose={() => navigate(withQuery(page.path))} />
      }
    >
      <PageCharts charts={page.charts} folded={selected !== undefined} />
      <Table
        label={page.title}
        rows={shown}
        columns={selected && !narrow.value ? compact : columns}
        selected={selected}
        onOpen={(row) => navigate(withQuery(tableHref(page.table, row.id) ?? page.path))}
        empty={<NoRows page={page} all={all.size} />}
      />
    </PageFrame>
  );
}

function Details({ page, id, onClose }: { page: Page; id: string; onClose: () => void }): JSX.Element {
  const row = tableNamed(page.table).get(id);
  const { namespace, name } = idParts(id);
  const kind = kindOfTable(page.table) ?? page.title;
  const subtitle = namespace ? `${kind} in ${namespace}` : kind;
  if (!row)
    return (
      <Panel title={name} subtitle={subtitle} onClose={onClose}>
        {areLoaded([page.table]) ? (
          <Empty title={`${kind} not found`}>It may have been deleted.</Empty>
        ) : (
          <NotFoundNotice of={[page.table]} what={`The ${kind}`} />
        )}
      </Panel>
    );
  return (
    <Panel
      title={name}
      subtitle={subtitle}
      badge={page.state && <Cell row={row} column={page.state} />}
      actions={<ActionButtons table={page.table} row={row} />}
      onClose={onClose}
    >
      <Sections table={page.table} row={row} sections={[...page.sections, ...sectionsOf(page.table)]} />
    </Panel>
  );
}

function NoRows({ page, all }: { page: Page; all: number }): JSX.Element {
  const what = page.title.toLowerCase();
  if (all) return <Empty title={`No matching ${what}`}>Clear a filter to see more.</Empty>;
  if (!areLoaded([page.table])) return <NotFoundNotice of={[page.table]} what={page.title} />;
  return <Empty title={`No ${what} yet`}>{page.empty}</Empty>;
}

/** The first column links to the details. */
function tableColumns(page: Page): TableColumn<DescribedRow>[] {
  return page.columns.map((column, at) => ({
    id: column.field,
    title: column.title,
    width: column.width || undefined,
    numeric: isNumeric(column.format),
    wideOnly: column.shown !== "always",
    fullWidthOnly: column.shown === "full",
    sort: (row) => sortKey(row, column),
    cell: (row) =>
      at === 0 ? (
        <RowLink row={row} column={column} href={withQuery(tableHref(page.table, row.id) ?? page.path)} />
      ) : (
        <Cell row={row} column={column} />
      ),
  }));
}

/** Beside the details: the columns that a phone shows, with all the rest for the first. */
function compactColumns(columns: readonly TableColumn<DescribedRow>[]): TableColumn<DescribedRow>[] {
  return columns
    .filter((column) => !column.wideOnly)
    .map((column, at) => (at === 0 ? { ...column, width: undefined } : column));
}

function distinctValues(rows: Iterable<DescribedRow>, column: Column): string[] {
  return distinct([...rows].map((row) => formatValue(fieldValue(row, column.field), column.format)).filter(Boolean));
}
