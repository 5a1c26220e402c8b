import type { JSX } from "preact";
import { PageFrame } from "../ui/page";

export function Events(): JSX.Element {
  return <PageFrame title="Events">{null}</PageFrame>;
}
