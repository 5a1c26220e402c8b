/**
 * The tables of the cluster, updated by the stream.
 *
 * A table is a Map that is changed in place, at most once per animation frame, and a signal that
 * counts the changes. Reading `all`, `get` or an index in a component or a computed subscribes to
 * it. Derived values that are too expensive to recompute register with `watch` and are updated row
 * by row.
 */
import { batch, type Signal, signal } from "@preact/signals";
import type { Change } from "./messages";
import type { GangRow, Rows, TableName } from "./rows";

/** Called for each row that was added, removed or replaced. */
export type RowListener<R> = (after: R | undefined, before: R | undefined) => void;

/** Rows by id. */
export class Table<R extends { id: string }> {
  /** Counts the batches applied; read it to subscribe. */
  readonly version: Signal<number> = signal(0);
  readonly #rows = new Map<string, R>();
  readonly #listeners = new Set<RowListener<R>>();

  /** All rows; subscribes. */
  get all(): ReadonlyMap<string, R> {
    this.version.value;
    return this.#rows;
  }

  /** One row; subscribes to the table. */
  get(id: string | undefined): R | undefined {
    this.version.value;
    return id === undefined ? undefined : this.#rows.get(id);
  }

  /** All rows, without subscribing. */
  peek(): ReadonlyMap<string, R> {
    return this.#rows;
  }

  /** Calls `listener` for each existing row, and for each later change. */
  watch(listener: RowListener<R>): () => void {
    for (const row of this.#rows.values()) listener(row, undefined);
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Applies a batch of changes. */
  apply(change: Change<R>): void {
    const upserted = change.upserted ?? [];
    if (change.reset) {
      const remaining = new Set(upserted.map((row) => row.id));
      for (const id of [...this.#rows.keys()]) if (!remaining.has(id)) this.#set(id, undefined);
    }
    for (const id of change.deleted ?? []) this.#set(id, undefined);
    for (const row of upserted) this.#set(row.id, row);
    this.version.value++;
  }

  #set(id: string, row: R | undefined): void {
    const before = this.#rows.get(id);
    if (row) this.#rows.set(id, row);
    else if (!this.#rows.delete(id)) return;
    for (const listener of this.#listeners) listener(row, before);
  }
}

/** Rows of a table by another key, updated incrementally. */
export class Index<R extends { id: string }> {
  readonly #table: Table<R>;
  readonly #groups = new Map<string, Map<string, R>>();

  constructor(table: Table<R>, keyOf: (row: R) => string | undefined) {
    this.#table = table;
    table.watch((after, before) => {
      const from = before && keyOf(before);
      const to = after && keyOf(after);
      if (before && from !== undefined && from !== to) this.#remove(from, before.id);
      if (after && to !== undefined) this.#add(to, after);
    });
  }

  /** The rows of one key; subscribes to the table. */
  get(key: string): ReadonlyMap<string, R> {
    this.#table.version.value;
    return this.peek(key);
  }

  /** The rows of one key, without subscribing. */
  peek(key: string): ReadonlyMap<string, R> {
    return this.#groups.get(key) ?? NO_ROWS;
  }

  #add(key: string, row: R): void {
    let group = this.#groups.get(key);
    if (!group) {
      group = new Map();
      this.#groups.set(key, group);
    }
    group.set(row.id, row);
  }

  #remove(key: string, id: string): void {
    const group = this.#groups.get(key);
    if (group?.delete(id) && group.size === 0) this.#groups.delete(key);
  }
}

const NO_ROWS = new Map<string, never>();

/** The tables of rows that views of this repository know. */
export const tables: { [N in TableName]: Table<Rows[N]> } = {
  nodes: new Table(),
  pods: new Table(),
  gangs: new Table(),
  sets: new Table(),
  cliques: new Table(),
  deployments: new Table(),
  statefulsets: new Table(),
  jobs: new Table(),
  gpuworkloads: new Table(),
  queues: new Table(),
  events: new Table(),
  workloads: new Table(),
  usage: new Table(),
  gpumetrics: new Table(),
};

export const podsByGang = new Index(tables.pods, (pod) => pod.gang);
export const podsByWorkload = new Index(tables.pods, (pod) => pod.workload);
export const gangsBySet = new Index(tables.gangs, (gang) => gang.set);
export const setsByWorkload = new Index(tables.sets, (set) => set.workload);
export const cliquesBySet = new Index(tables.cliques, (clique) => clique.set);
export const eventsByObject = new Index(tables.events, (event) => event.object);

/** A row of a table that a component contributes. */
type ContributedRow = { id: string } & Record<string, unknown>;

const tablesByName = new Map<string, Table<ContributedRow>>(
  Object.entries(tables) as unknown as [string, Table<ContributedRow>][],
);

/** Any table of the server, for views that components describe. */
export function tableNamed(name: string): Table<ContributedRow> {
  let table = tablesByName.get(name);
  if (!table) {
    table = new Table();
    tablesByName.set(name, table);
  }
  return table;
}

/** The queue of a gang; some gangs name it on their pods only. */
export function queueOfGang(gang: GangRow): string {
  if (gang.queue) return gang.queue;
  for (const pod of podsByGang.peek(gang.id).values()) return pod.queue ?? "default";
  return "default";
}

/** Tables that the server has sent completely since the last connect. */
export const loaded: Signal<ReadonlySet<string>> = signal(new Set<string>());

/** Empties a table that was not sent since the last connect: the age of its rows is unknown. */
export function clearTable(table: string): void {
  if (!loaded.peek().has(table)) tablesByName.get(table)?.apply({ table, reset: true });
}

let pending: Change<never>[] = [];
let scheduled = false;

/** Applies changes with the next frame, or within a second where no frames are drawn. */
export function applyChange(change: Change<never>): void {
  pending.push(change);
  if (scheduled) return;
  scheduled = true;
  const late = setTimeout(flush, 1000);
  requestAnimationFrame(() => {
    clearTimeout(late);
    flush();
  });
}

function flush(): void {
  if (!scheduled) return;
  const changes = pending;
  pending = [];
  scheduled = false;
  batch(() => {
    for (const change of changes) {
      tableNamed(change.table).apply(change);
      if (change.reset && !loaded.peek().has(change.table)) loaded.value = new Set([...loaded.peek(), change.table]);
    }
  });
}
