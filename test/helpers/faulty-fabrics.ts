import { StatusCode } from '../../src/io/codes.ts';
import type { Completion, Connection, Fabric } from '../../src/io/fabric.ts';

/** Fabrics that do one thing wrong, for the checker to find: each wraps a good one. */

/** What a fault is given to, and asked whether it strikes. */
export interface Posted {
  readonly operation: 'read' | 'write';
  readonly queuePair: number;
  /** Triples of local offset, remote offset, bytes. */
  readonly runs: readonly number[];
}

export type Strikes = (posted: Posted) => boolean;

type Runs = (posted: Posted) => number[];

function lastOf({ runs }: Posted): [number, number, number] {
  return runs.slice(-3) as [number, number, number];
}

/** Each run of more than `above` bytes loses its last one. */
const dropsLastByte =
  (above: number): Runs =>
  ({ runs }) =>
    runs.map((value, at) => (at % 3 === 2 && value > above ? value - 1 : value));

/** The two halves of the longest run land in each other's place. */
const swapsChunks: Runs = ({ runs }) => {
  let longest = 0;
  for (let at = 0; at < runs.length; at += 3) if (runs[at + 2]! > runs[longest + 2]!) longest = at;
  const [local, remote, bytes] = runs.slice(longest, longest + 3) as [number, number, number];
  const half = Math.floor(bytes / 2);
  if (half === 0) return [...runs];
  const rest = bytes - half;
  const halves = [local, remote + rest, half, local + half, remote, rest];
  return [...runs.slice(0, longest), ...halves, ...runs.slice(longest + 3)];
};

const writesTooFar: Runs = (posted) => {
  const [local, remote, bytes] = lastOf(posted);
  return [...posted.runs.slice(0, -3), local, remote, bytes + 1];
};

const losesOne: Runs = ({ runs }) => {
  const lost = Math.floor(runs.length / 3 / 2) * 3;
  return runs.length > 3 ? [...runs.slice(0, lost), ...runs.slice(lost + 3)] : [...runs];
};

function changed(fabric: Fabric, strikes: Strikes, change: Runs): Fabric {
  return {
    ...fabric,
    post(connection, operation, runs, id) {
      const posted = { operation, queuePair: connection.queuePair, runs };
      fabric.post(connection, operation, strikes(posted) ? change(posted) : runs, id);
    },
  };
}

/** Its completion is there at once, and the bytes come with the next thing that is asked of the fabric. */
function early(fabric: Fabric, strikes: Strikes): Fabric {
  let held: [Connection, 'read' | 'write', readonly number[], number][] = [];
  let told: Completion[] = [];
  let isSeen = false;
  const hidden = new Set<number>();
  const letGo = (): void => {
    if (!isSeen) return;
    for (const order of held) {
      hidden.add(order[3]);
      fabric.post(...order);
    }
    held = [];
  };
  return {
    ...fabric,
    post(connection, operation, runs, id) {
      letGo();
      if (!strikes({ operation, queuePair: connection.queuePair, runs }))
        return fabric.post(connection, operation, runs, id);
      held.push([connection, operation, runs, id]);
      told.push({ id, code: StatusCode.SUCCESS, message: 'success' });
      isSeen = false;
    },
    poll() {
      letGo();
      const ended = [...told, ...fabric.poll().filter(({ id }) => !hidden.delete(id))];
      isSeen = true;
      told = [];
      return ended;
    },
  };
}

export interface Fault {
  readonly name: string;
  /** What the checker must call it. */
  readonly kind: string;
  readonly wrap: (fabric: Fabric, strikes: Strikes) => Fabric;
}

const changing = (name: string, kind: string, change: Runs): Fault => ({
  name,
  kind,
  wrap: (fabric, strikes) => changed(fabric, strikes, change),
});

export const FAULTS: readonly Fault[] = [
  changing('drops the last byte above 64 bytes', 'missing tail', dropsLastByte(64)),
  changing('drops the last byte above 4 KiB', 'missing tail', dropsLastByte(4096)),
  changing('drops the last byte above 1 MiB', 'missing tail', dropsLastByte(1024 * 1024)),
  changing('swaps two chunks', 'moved chunk', swapsChunks),
  { name: 'completes early', kind: 'early completion', wrap: early },
  changing('writes one byte too far', 'overrun', writesTooFar),
  changing('loses one of n', 'lost request', losesOne),
];
