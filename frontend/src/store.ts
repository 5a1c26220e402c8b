/**
 * The tables of the cluster, kept up to date by the stream.
 *
 * A table is a Map that is changed in place, at most once per animation frame, and a signal that
 * counts the changes. Reading `all`, `get` or an index in a component or a computed subscribes to
 * it. What would cost too much to work out anew is kept by those who `watch` single changes.
 */
import { batch, signal, type Signal } from "@preact/signals";
import type { Change, GangRow, Rows, TableName } from "./rows";

/** Told of each row that came, went or was replaced. */
export type Watcher<R> = (after: R | undefined, before: R | undefined) => void;

/** Rows by id. */
export class Table<R extends { id: string }> {
  /** Counts the batches applied; read it to subscribe. */
  readonly version: Signal<number> = signal(0);
  readonly #rows = new Map<string, R>();
  readonly #watchers = new Set<Watcher<R>>();

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

  /** Calls `watcher` for each row there is, and for each change from now on. */
  watch(watcher: Watcher<R>): () => void {
    for (const row of this.#rows.values()) watcher(row, undefined);
    this.#watchers.add(watcher);
    return () => this.#watchers.delete(watcher);
  }

  /** Takes in a batch of changes. */
  apply(change: Change<R>): void {
    const put = change.put ?? [];
    if (change.reset) {
      const kept = new Set(put.map((row) => row.id));
      for (const id of [...this.#rows.keys()]) if (!kept.has(id)) this.#set(id, undefined);
    }
    for (const id of change.gone ?? []) this.#set(id, undefined);
    for (const row of put) this.#set(row.id, row);
    this.version.value++;
  }

  #set(id: string, row: R | undefined): void {
    const before = this.#rows.get(id);
    if (row) this.#rows.set(id, row);
    else if (!this.#rows.delete(id)) return;
    for (const watcher of this.#watchers) watcher(row, before);
  }
}

/** Rows of a table by something other than their id, kept incrementally. */
export class Index<R extends { id: string }> {
  readonly #table: Table<R>;
  readonly #groups = new Map<string, Map<string, R>>();

  constructor(table: Table<R>, keyOf: (row: R) => string | undefined) {
    this.#table = table;
    table.watch((after, before) => {
      const from = before && keyOf(before);
      const to = after && keyOf(after);
      if (before && from !== undefined && from !== to) this.#leave(from, before.id);
      if (after && to !== undefined) this.#enter(to, after);
    });
  }

  /** The rows of one key; subscribes to the table. */
  get(key: string): ReadonlyMap<string, R> {
    this.#table.version.value;
    return this.peek(key);
  }

  /** The rows of one key, without subscribing. */
  peek(key: string): ReadonlyMap<string, R> {
    return this.#groups.get(key) ?? NONE;
  }

  #enter(key: string, row: R): void {
    let group = this.#groups.get(key);
    if (!group) this.#groups.set(key, (group = new Map()));
    group.set(row.id, row);
  }

  #leave(key: string, id: string): void {
    const group = this.#groups.get(key);
    if (group?.delete(id) && group.size === 0) this.#groups.delete(key);
  }
}

const NONE = new Map<string, never>();

/** The tables the page knows. */
export const tables: { [N in TableName]: Table<Rows[N]> } = {
  nodes: new Table(),
  pods: new Table(),
  gangs: new Table(),
  sets: new Table(),
  cliques: new Table(),
  deployments: new Table(),
  statefulsets: new Table(),
  jobs: new Table(),
  queues: new Table(),
  events: new Table(),
  workloads: new Table(),
  usage: new Table(),
};

export const podsByGang = new Index(tables.pods, (pod) => pod.gang);
export const podsByWorkload = new Index(tables.pods, (pod) => pod.workload);
export const gangsBySet = new Index(tables.gangs, (gang) => gang.set);
export const cliquesBySet = new Index(tables.cliques, (clique) => clique.set);
export const eventsByObject = new Index(tables.events, (event) => event.object);

const known: ReadonlyMap<string, { apply: (change: Change<never>) => void }> = new Map(Object.entries(tables));

/** The queue of a gang, which may stand on its pods only. */
export function queueOf(gang: GangRow): string {
  if (gang.queue) return gang.queue;
  for (const pod of podsByGang.peek(gang.id).values()) return pod.queue ?? "default";
  return "default";
}

/** Tables that the server has told completely since the page came, or came back. */
export const loaded: Signal<ReadonlySet<string>> = signal(new Set<string>());

/** Empties a table of which the server has told nothing: nobody knows how old its rows are. */
export function forget(table: string): void {
  if (!loaded.peek().has(table)) known.get(table)?.apply({ table, reset: true });
}

let pending: Change<never>[] = [];
let scheduled = false;

/** Takes changes in with the next frame, or within a second where no frames are drawn. */
export function receive(change: Change<never>): void {
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
      const table = known.get(change.table);
      table?.apply(change);
      if (change.reset && !loaded.peek().has(change.table))
        loaded.value = new Set([...loaded.peek(), change.table]);
    }
  });
}
