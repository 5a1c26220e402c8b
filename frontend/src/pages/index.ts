/** The pages: a room adds one entry here, and one file. */
import type { ComponentType } from "preact";
import type { IconName } from "../ui/icons";
import { Events } from "./events";
import { Fleet } from "./fleet";
import { Nodes } from "./nodes";
import { Queues } from "./queues";
import { Workloads } from "./workloads";

export interface Page {
  /** Its path. */
  path: string;
  title: string;
  /** The letter that goes to it after "g". */
  key: string;
  icon: IconName;
  view: ComponentType;
  /** Whether there are addresses below its path; src/kilonova/console/files.py has the same. */
  hasDetails?: boolean;
}

export const pages: Page[] = [
  { path: "/fleet", title: "Fleet", key: "f", icon: "fleet", view: Fleet },
  { path: "/workloads", title: "Workloads", key: "w", icon: "workloads", view: Workloads, hasDetails: true },
  { path: "/queues", title: "Queues", key: "q", icon: "queues", view: Queues, hasDetails: true },
  { path: "/nodes", title: "Nodes", key: "n", icon: "nodes", view: Nodes },
  { path: "/events", title: "Events", key: "e", icon: "events", view: Events },
];
