import type { JSX } from "preact";
import { PageFrame } from "../ui/page";

export function Fleet(): JSX.Element {
  return <PageFrame title="Fleet">{null}</PageFrame>;
}
