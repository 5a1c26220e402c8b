import type { JSX } from "preact";
import { PageFrame } from "../ui/page";

export function Workloads(): JSX.Element {
  return <PageFrame title="Workloads">{null}</PageFrame>;
}
