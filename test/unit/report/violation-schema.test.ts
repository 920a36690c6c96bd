import { expect, test } from 'vitest';
import { runSeed } from '../../../src/explore/run.ts';
import { violationSchema } from '../../../src/report/violation-schema.ts';
import { violationAsJson } from '../../../src/report/violation-words.ts';
import { FAULT_IDS } from '../../../src/zoo/as-written/faults.ts';
import { AS_WRITTEN_MIX } from '../../../src/zoo/as-written/mix.ts';
import { newMemory } from '../../helpers/world.ts';

interface Schema {
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly type?: string;
  readonly required?: readonly string[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly oneOf?: readonly Schema[];
}

/** Whether a value keeps the part of the schema language that ours uses. */
function keeps(schema: Schema, value: unknown): boolean {
  if ('const' in schema && schema.const !== value) return false;
  if (schema.enum !== undefined && !schema.enum.includes(value)) return false;
  if (schema.type === 'integer' && !Number.isInteger(value)) return false;
  if (schema.type === 'string' && typeof value !== 'string') return false;
  const fields = value as Readonly<Record<string, unknown>>;
  if (schema.required?.some((name) => fields[name] === undefined)) return false;
  const properties = Object.entries(schema.properties ?? {});
  if (properties.some(([name, part]) => fields[name] !== undefined && !keeps(part, fields[name])))
    return false;
  return schema.oneOf === undefined || schema.oneOf.filter((part) => keeps(part, value)).length === 1;
}

test('violations keep the schema, each as one breach, and changed ones do not', () => {
  const memory = newMemory();
  const schema = violationSchema() as Schema;
  const seen = new Set<string>();
  for (const fault of FAULT_IDS) {
    for (let seed = 0; seed < 60; seed++) {
      const { violation, record } = runSeed(memory, { ...AS_WRITTEN_MIX, faults: [fault] }, seed).result;
      if (violation === null) continue;
      const told = JSON.parse(JSON.stringify(violationAsJson(violation, record.actorNames)));
      expect([told, keeps(schema, told)]).toEqual([told, true]);
      for (const change of [{ site: 'elsewhere' }, { breach: 'x' }, { ids: {} }, { step: 'one' }])
        expect([change, keeps(schema, { ...told, ...change })]).toEqual([change, false]);
      seen.add(violation.breach);
    }
  }
  expect(seen.size).toBeGreaterThan(4);
});
