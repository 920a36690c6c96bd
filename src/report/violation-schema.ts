import type { Breach } from '../oracle/breach.ts';
import { INVARIANTS } from '../oracle/registry.ts';

/**
 * The JSON schema (draft 2020-12) of a violation as `check --json` and `replay --json` print it, made from the registry of
 * invariants: which sites and breaches each has, and which ids a breach tells.
 */
export function violationSchema(): object {
  return {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title: 'A broken invariant of Moriarty',
    type: 'object',
    required: [
      ...['invariant', 'site', 'role', 'machine', 'part', 'breach', 'ids', 'step', 'atMicros'],
      ...['place', 'detail'],
    ],
    properties: {
      invariant: { enum: INVARIANTS.map(({ id }) => id) },
      role: { enum: ['proxy', 'prefill', 'decode', 'none'] },
      machine: { enum: ['scheduler', 'rank', 'none'] },
      part: { type: 'string', description: 'hook, thread, effect, event or wait; empty for the only one' },
      ids: { type: 'object', additionalProperties: { $ref: '#/$defs/id' } },
      stack: { type: 'array', items: { type: 'string' } },
      step: { type: 'integer', minimum: 0 },
      atMicros: { type: 'integer', minimum: 0 },
      place: { type: 'string', description: 'site and owner in words' },
      detail: { type: 'string', description: 'what is at fault in words' },
    },
    oneOf: INVARIANTS.flatMap(({ breaches }) => Object.values(breaches).map(breachSchema)),
    $defs: {
      id: {
        anyOf: [{ type: 'number' }, { type: 'string' }, { type: 'array', items: { type: 'number' } }],
      },
    },
  };
}

function breachSchema({ invariant, name, site, says }: Breach): object {
  return {
    title: `${invariant} ${name}`,
    properties: {
      invariant: { const: invariant },
      site: { const: site },
      breach: { const: name },
      ids: { required: idsIn(says) },
    },
  };
}

/** The ids that the words of a breach name. */
function idsIn(says: string): string[] {
  return [...new Set([...says.matchAll(/\{(\w+)\}/g)].map((hit) => hit[1]!))];
}
