/** What components contribute to the page. Generated from src/kilonova/console/description.py by tools/frontend/rows.py: do not edit. */

export type Format =
  | "text"
  | "code"
  | "state"
  | "flag"
  | "number"
  | "bytes"
  | "percent"
  | "meter"
  | "money"
  | "age"
  | "duration"
  | "time"
  | "list"
  | "url";

export type Tone = "good" | "busy" | "wait" | "warn" | "bad" | "idle";

export type Chart = TimeChart | Histogram;

export type Section = Fields | Conditions | Events | Related | Entries | Charts | LiveObject;

/** A table and the kind of its objects. */
export interface TableDescription {
  name: string;
  kind: string;
  /** The kind in ids of workloads, with its API group where that is not implied. */
  workloadKind: string;
}

/** A field of a row, as a column of a table or as a fact in the details. */
export interface Column {
  field: string;
  title: string;
  format: Format;
  /** Of a state: the tone of each value; `idle` for others. */
  tones: Record<string, Tone>;
  /** The table of the object that the value is the id of; `object` for `Kind/namespace/name`. */
  link: string;
  /** Whether the page has a filter with the values of this column. */
  filter: boolean;
  /** `80px`, `20%`; columns without one share the rest. */
  width: string;
  /** `wide`: not on a phone; `full`: only where the table has its full width. */
  shown: "always" | "wide" | "full";
}

/** One line of a chart. */
export interface ChartLine {
  series: string;
  title: string;
  /** For limits and totals that other lines are compared with; never stacked. */
  dashed: boolean;
}

/** Series over time. In the details of an object the series have its id as key, elsewhere "". */
export interface TimeChart {
  type: "time";
  title: string;
  lines: ChartLine[];
  style: "line" | "area" | "stacked";
  format: Format;
  /** A series that has a line for each of its keys, titled by the key: those with the greatest values. They come before `lines`. */
  byKey: string;
}

/** How many rows of a table have which values of a field. */
export interface Histogram {
  type: "histogram";
  title: string;
  table: string;
  field: string;
  format: Format;
  buckets: number;
}

/** Facts about the object: names and values. */
export interface Fields {
  type: "fields";
  fields: Column[];
  title: string;
  /** Another table, whose row of the same id has the fields. */
  table: string;
}

/** The conditions of the object: a field with a list of `type`, `status`, `reason`, `message` and `since`. */
export interface Conditions {
  type: "conditions";
  field: string;
  title: string;
}

/** The newest events of the object. */
export interface Events {
  type: "events";
  title: string;
}

/** Rows of another table that refer to the object. */
export interface Related {
  type: "related";
  title: string;
  table: string;
  /** The field of the other table that refers to the object. */
  by: string;
  columns: Column[];
  /** The field of this object's row that it is compared with; `object` for `Kind/namespace/name`. */
  equals: string;
}

/** A table of the records in a field of the row, such as the clusters of a deployment. */
export interface Entries {
  type: "entries";
  title: string;
  field: string;
  columns: Column[];
}

/** Charts of the object's series. */
export interface Charts {
  type: "charts";
  charts: TimeChart[];
  title: string;
}

/** The object as YAML, fetched when it is opened. */
export interface LiveObject {
  type: "object";
  title: string;
}

/** A page of the console. With a `table` it lists the rows, and the address below it (`/widgets/default/w1`) opens the details of one. Without, `frontend/src/pages` has a file with its view: `/fleet` is `fleet.tsx`. */
export interface Page {
  path: string;
  title: string;
  /** The letter that opens it after `g`; none if another page has it. */
  key: string;
  /** The name of an icon of the page, or the path of one on a grid of 16: `M2 2h12v12h-12z`. */
  icon: string;
  /** Its place in the navigation; pages of the same order are sorted by title. */
  order: number;
  /** Whether there are addresses below its path; always, with a table. */
  hasDetails: boolean;
  table: string;
  columns: Column[];
  /** Above the table. */
  charts: Chart[];
  /** Of the details. */
  sections: Section[];
  /** Shown beside the title of the details. */
  state: Column | null;
  /** The field that rows are sorted by at first; `-field` for descending. */
  sort: string;
  /** How to create the first object, where there is none. */
  empty: string;
  /** Leave it out of the navigation while its table has no rows, for what not every cluster has. */
  hideEmpty: boolean;
}

/** A whole number that the user enters for an action. */
export interface ValueInput {
  /** `Replicas`. */
  label: string;
  /** The field of the row with the current value. */
  field: string;
  minimum: number;
  maximum: number;
}

/** An action with a button in the details of an object. */
export interface ActionDescription {
  name: string;
  table: string;
  title: string;
  /** What the confirmation states will happen. */
  text: string;
  danger: boolean;
  /** The boolean field of the row that has to be true; with a leading `!`, false. */
  when: string;
  value: ValueInput | null;
}

/** Rows that the global search finds by name. */
export interface SearchTarget {
  table: string;
  /** What a row is: `Instance`. */
  kind: string;
  /** Shown beside the name, each with fields in braces: `on {node}`; omitted if one is empty. */
  detail: string[];
  /** Among equal matches, rows of a lower order come first. */
  order: number;
}

/** Everything that components contribute to the page. */
export interface Description {
  tables: TableDescription[];
  /** In the order of the navigation. */
  pages: Page[];
  /** Sections in the details of objects, by table. */
  sections: Record<string, Section[]>;
  actions: ActionDescription[];
  search: SearchTarget[];
}
