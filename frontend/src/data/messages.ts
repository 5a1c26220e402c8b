/** Messages of the server's event stream; see src/kilonova/console/feeds/viewers.py. */

/** A batch of changes of one table; with `reset`, `upserted` is the whole table. */
export interface Change<R> {
  table: string;
  reset?: boolean;
  upserted?: R[];
  deleted?: string[];
  /** When it was sent, in milliseconds since the epoch. */
  at?: number;
}

/** Why a table cannot be read. */
export interface TableError {
  table: string;
  /** The resource as kubectl names it. */
  resource: string;
  reason: "forbidden" | "unauthorized" | "unreachable" | "rejected";
  /** The message of the API server or the connection. */
  message: string;
  /** Rows received before are stale since then. */
  since: number;
}

/** A component that has failed, and has not recovered yet. */
export interface DegradedComponent {
  name: string;
  /** What happened, as the rest of a sentence that begins with its name. */
  problem: string;
}

/** The first message of the server. */
export interface ServerInfo {
  version: string;
  cluster: string;
  actions: boolean;
  /** Schedulers whose pods count in queues. */
  schedulers: string[];
  tables: string[];
  now: number;
}
