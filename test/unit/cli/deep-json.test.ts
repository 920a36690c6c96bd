import { describe, expect, test } from 'vitest';
import { UsageError } from '../../../src/base/failure.ts';
import { readModelConfig } from '../../../src/cli/plan/model-config.ts';
import { readReplayText } from '../../../src/explore/replay-line.ts';
import { readTrace } from '../../../src/sim/request-trace.ts';

/** Lists within lists: the parser takes any depth, and nothing of ours may follow it down. */
const DEEP = '['.repeat(100_000) + ']'.repeat(100_000);

const MODEL = { model_type: 'llama', num_hidden_layers: 2, num_key_value_heads: 2, head_dim: 64 };
const FIELDS = [
  ...Object.keys(MODEL),
  'torch_dtype',
  'num_attention_heads',
  'hidden_size',
  'quantization_config',
];
const REPLAY = ['version', 'digest', 'scenario', 'seed', 'tape', 'mode', 'faults', 'engine'];
const TRACE = ['timestamp', 'input_length', 'output_length', 'hash_ids'];

function withDeep(fields: object, name: string): string {
  const { [name]: _, ...others } = fields as Record<string, unknown>;
  return `${JSON.stringify(others).slice(0, -1)}${Object.keys(others).length > 0 ? ',' : ''}"${name}":${DEEP}}`;
}

const SCENARIO = { version: 2, scenario: 'shipped-mix', seed: 1 };
const REQUEST = { timestamp: 0, input_length: 1, output_length: 1, hash_ids: [0] };

describe.each([
  ['a replay', REPLAY, SCENARIO, (text: string) => readReplayText(text, 'here')],
  ['a trace', TRACE, REQUEST, (text: string) => readTrace(text, 'here')],
  ['a model', FIELDS, MODEL, (text: string) => readModelConfig(text, 'here')],
] as const)('%s', (_, fields, sound, read) => {
  test.each(fields)(
    'that nests %s a hundred thousand deep is refused with a code, or the field is not read',
    (name) => {
      try {
        read(withDeep(sound, name));
      } catch (error) {
        expect(error).toBeInstanceOf(UsageError);
        expect((error as UsageError).message.length).toBeLessThan(400);
      }
    },
  );
});
