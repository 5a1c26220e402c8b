import type { JSX } from "preact";
import { PageFrame } from "../ui/page";

export function Queues(): JSX.Element {
  return <PageFrame title="Queues">{null}</PageFrame>;
}
