import { z } from 'zod';

/** What a child may answer, checked: whoever wrote it runs the code under attack. */

const index = z.int().min(0).max(Number.MAX_SAFE_INTEGER);
const name = z.string().max(400);
const text = z.string().max(1000);
const frames = z.array(text).max(12);

const effect = z.union([
  z.tuple([z.literal('turn'), index, index]),
  z.tuple([z.literal('main')]),
  z.tuple([z.literal('arm'), index, index]),
  z.tuple([z.literal('stop'), index]),
  z.tuple([z.literal('log'), z.string().regex(/^[a-z][a-z-]{0,59}$/), z.record(name, name)]),
  z.tuple([z.literal('send'), name, z.string().regex(/^([0-9a-f]{2})*$/)]),
  z.tuple([z.literal('connect'), name]),
  z.tuple([
    z.literal('post'),
    z.enum(['read', 'write']),
    name,
    index,
    name,
    index,
    z.array(z.int()).max(60_000),
  ]),
]);

export type ChildEffect = z.infer<typeof effect>;

const raised = z.strictObject({
  kind: z.enum(['raised', 'limit', 'source']),
  text,
  stack: frames.optional(),
});
const died = z.strictObject({ thread: name, text, stack: frames });

export type Raised = z.infer<typeof raised>;
export type Died = z.infer<typeof died>;

export const ANSWER = z.strictObject({
  effects: z.array(effect).max(100_000).default([]),
  /** Of the main thread: it has nothing to do, may go on, or waits. */
  main: z.enum(['done', 'ready', 'blocked']).optional(),
  /** Of a hook that has ended. */
  value: z.unknown().optional(),
  /** The hook that has ended looked at the clock. */
  clock: z.boolean().optional(),
  /** The slice was one more round of a loop that polls. */
  quiet: z.boolean().optional(),
  hooks: z.array(name).max(32).optional(),
  waits: z
    .array(z.tuple([name, text, name]))
    .max(1000)
    .optional(),
  python: name.optional(),
  error: raised.optional(),
  died: z.array(died).optional(),
});

export type Answer = z.infer<typeof ANSWER>;

export const MATCHED = z.strictObject({ tokens: z.int(), async: z.boolean() });
export const FINISHED = z.strictObject({
  keep: z.boolean(),
  params: z
    .looseObject({ remote_block_ids: z.array(index).max(100_000), remote_num_tokens: index })
    .nullable(),
});
export const REPORTED = z.strictObject({ sent: z.array(name), received: z.array(name) });
