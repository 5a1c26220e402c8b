/** Who shares the cluster: the tree of queues, and who waits in them. */
import type { JSX } from "preact";
import { amount, counted, number, resourceTitle } from "../format";
import { queueHref } from "../links";
import { Legend, ShareBar } from "../queues/bar";
import { QueueDetails } from "../queues/details";
import { GPU, lineage, resourcesOf, scaleOf, shareOf, treeOf, type Branch } from "../queues/tree";
import { allQueues } from "../queues/usual";
import { WaitingList, waitingIn, waitingIsKnown, type Waiting } from "../queues/waiting";
import { below, go, keepingQuery, useQuery } from "../router";
import { tables } from "../store";
import { Choice, Empty, SearchBox } from "../ui/bits";
import { PageFrame } from "../ui/page";
import { Mark } from "../ui/state";
import { areKnown, NotThere } from "../ui/unread";

const TABLES = ["queues", "gangs", "pods"] as const;

/** The tree; the details of one are at /queues/NAME. */
export function Queues(): JSX.Element {
  const [resource] = useQuery("resource", GPU);
  const [q] = useQuery("q");
  const [selected] = below("/queues");
  const queues = allQueues.value;
  const branches = treeOf(queues).filter(({ queue }) => queue.id.toLowerCase().includes(q.toLowerCase()));
  const waiting = waitingIn();
  const mine = waiting.filter((each) => !q || `${each.id} ${each.queue} ${each.why}`.toLowerCase().includes(q.toLowerCase()));
  return (
    <PageFrame
      title="Queues"
      tables={TABLES}
      summary={areKnown(["queues"]) && `${counted(queues.length, "queue")}${waitingIsKnown() ? `, ${number(waiting.length)} waiting` : ""}`}
      filters={
        <>
          <SearchBox label="Filter queues" />
          <Choice label="Resource" name="resource" options={resourcesOf(queues).map((value) => ({ value, title: resourceTitle(value) }))} />
        </>
      }
      panel={selected && <QueueDetails key={selected} name={selected} onClose={() => go(keepingQuery("/queues"))} />}
    >
      {queues.length === 0 ? (
        <NoQueues />
      ) : (
        <Tree branches={branches} resource={resource} scale={scaleOf(queues, resource)} selected={selected} waiting={waiting} />
      )}
      <section class="below-tree" aria-labelledby="waiting-title">
        <h3 id="waiting-title">Waiting for a place {waitingIsKnown() && <span class="section-aside">{number(mine.length)}</span>}</h3>
        <WaitingList waiting={mine} withQueue />
      </section>
    </PageFrame>
  );
}

const AS_THEY_COME = "All share the cluster as they come. A Queue gives a team its share, and a limit.";

function NoQueues(): JSX.Element {
  if (!areKnown(["queues"])) return <NotThere of={["queues"]} what="Queues" />;
  return <Empty title="Nobody has made a queue">{AS_THEY_COME}</Empty>;
}

/** Arrows go from queue to queue, by their links. */
function moveAlong(event: KeyboardEvent): void {
  const links = [...(event.currentTarget as HTMLElement).querySelectorAll<HTMLElement>("tbody a")];
  const at = links.findIndex((link) => link === document.activeElement);
  const target = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: links.length - 1 }[event.key];
  if (target === undefined) return;
  event.preventDefault();
  links[Math.min(links.length - 1, Math.max(0, target))]?.focus();
}

function Tree({ branches, resource, scale, selected, waiting }: {
  branches: Branch[];
  resource: string;
  scale: number;
  selected: string | undefined;
  waiting: readonly Waiting[];
}): JSX.Element {
  const counts = new Map<string, number>();
  for (const each of waiting)
    for (const name of lineage(each.queue, tables.queues.peek())) counts.set(name, (counts.get(name) ?? 0) + 1);
  return (
    <div class="queues">
      <Legend />
      <table class="queue-tree" tabIndex={-1} data-arrows onKeyDown={moveAlong}>
        <thead>
          <tr>
            <th>Queue</th>
            <th class="share-column">{resourceTitle(resource)}</th>
            <th class="num">Used</th>
            <th class="num wide">Deserved</th>
            <th class="num wide">Fair share</th>
            <th class="num wide">Limit</th>
            <th class="num">Waiting</th>
          </tr>
        </thead>
        <tbody>
          {branches.map(({ queue, depth }) => {
            const share = shareOf(queue, resource);
            const cell = (value: number | undefined) => (value === undefined ? <span class="faint">–</span> : amount(resource, value));
            return (
              <tr key={queue.id} aria-current={queue.id === selected ? "true" : undefined} onClick={() => go(keepingQuery(queueHref(queue.id)))}>
                <td>
                  <span class="branch" style={{ paddingLeft: `${depth * 18}px` }}>
                    {depth > 0 && <span class="twig" aria-hidden="true" />}
                    <a class="strong ellipsis" href={keepingQuery(queueHref(queue.id))}>{queue.id}</a>
                    {!queue.ready && <span title={queue.message}><Mark tone={queue.new ? "idle" : "bad"} /><span class="visually-hidden">not ready</span></span>}
                  </span>
                  {!queue.ready && queue.message && <p class={`${queue.new ? "tone-idle" : "tone-bad"} queue-message`}>{queue.message}</p>}
                </td>
                <td class="share-column"><ShareBar share={share} scale={scale} resource={resource} /></td>
                <td class="num">{cell(share.used)}</td>
                <td class="num wide">{cell(share.deserved)}</td>
                <td class="num wide">{cell(share.fairShare)}</td>
                <td class="num wide">{cell(share.limit)}</td>
                <td class="num">{counts.get(queue.id) ?? <span class="faint">–</span>}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
      {tables.queues.all.size === 0 && <p class="queue-note muted">Nobody has made a queue. {AS_THEY_COME}</p>}
    </div>
  );
}
