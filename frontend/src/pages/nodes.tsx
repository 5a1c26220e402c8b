import type { JSX } from "preact";
import { PageFrame } from "../ui/page";

export function Nodes(): JSX.Element {
  return <PageFrame title="Nodes">{null}</PageFrame>;
}
