import { existsSync } from 'node:fs';
import { UsageError } from '../../base/failure.ts';
import { NICS } from '../../io/profiles.ts';
import { planPicture } from '../../report/plan-picture.ts';
import { planText } from '../../report/plan-text.ts';
import { commandOf, type OptionRow } from '../command.ts';
import { readText, writeWhole } from '../files.ts';
import { JSON_OPTION, MODE_OPTION, wholeNumber } from '../options.ts';
import { EXIT, print, printJson } from '../output.ts';
import { planOf } from '../plan/compute.ts';
import { PLANNED_LAYOUTS } from '../plan/layout-choice.ts';
import { readModelConfig } from '../plan/model-config.ts';
import { CACHE_DTYPES, type CacheDtype, type ModelSpec } from '../plan/model-spec.ts';
import { MODEL_NAMES, modelByName } from '../plan/models.ts';
import type { Placement } from '../plan/ranks.ts';
import { readSide } from '../plan/side-spec.ts';

interface PlanFlags {
  readonly model: string;
  readonly kvDtype: 'auto' | CacheDtype;
  readonly prefill: string;
  readonly decode: string;
  readonly tokens: number;
  readonly prefix: number;
  readonly mode: 'read' | 'write';
  readonly nic: keyof typeof NICS;
  readonly chunking: 'on' | 'off';
  readonly placement: Placement;
  readonly sliding: 'whole' | 'window';
  readonly json?: boolean;
  readonly svg?: string;
}

const TOKENS_MAX = 16_777_216;
const TOKENS_DEFAULT = 4096;

const HELP = `
A side is key=value pairs with commas between them, all optional:
  tp, pp        ranks that share the heads, and the layers (1)
  block         tokens of a block (16)
  dcp           ranks of a context group, which split the tokens of each block (1),
                dcp-interleave neighbouring ones to each in turn (1)
  kernel-block  tokens of a kernel block, in which the memory is laid out (block)
  layout        ${PLANNED_LAYOUTS.slice(0, 5).join(', ')},
                ${PLANNED_LAYOUTS.slice(5, 11).join(', ')},
                ${PLANNED_LAYOUTS.slice(11, 17).join(', ')},
                ${PLANNED_LAYOUTS.slice(17).join(', ')}
                (kv-first-hnd; mla for a latent cache)
  blocks        blocks of a rank's cache (twice what the request needs)
  stages        layers of each pipeline stage, as in 30+31 (vLLM's default split)
  dtype         as --kv-dtype, for this side only

docs/PLAN.md says what the columns mean and what the predicted time is made of.`;

const OPTIONS: readonly OptionRow[] = [
  {
    flag: '--model <name>',
    text: `a config.json (- for standard input), or one of: ${MODEL_NAMES.join(', ')}`,
    required: true,
  },
  { flag: '--prefill <side>', text: 'shape of P, such as tp=8,block=16', usual: 'tp=1' },
  { flag: '--decode <side>', text: 'shape of D', usual: 'tp=1' },
  {
    flag: '--tokens <n>',
    text: 'tokens of the prompt',
    parse: wholeNumber(1, TOKENS_MAX),
    usual: TOKENS_DEFAULT,
  },
  {
    flag: '--prefix <n>',
    text: 'of these, tokens that D holds already',
    parse: wholeNumber(0, TOKENS_MAX),
    usual: 0,
  },
  among('--mode <mode>', MODE_OPTION.text, ['read', 'write'], 'write'),
  among('--kv-dtype <type>', 'of the cache', ['auto', ...CACHE_DTYPES], 'auto'),
  among('--nic <profile>', 'what the time is predicted with', Object.keys(NICS), 'plain'),
  among('--chunking <switch>', 'whether the engine cuts long work requests', ['on', 'off'], 'off'),
  among('--placement <how>', "how the request's blocks lie", ['contiguous', 'scattered'], 'contiguous'),
  among('--sliding <what>', 'of layers with a window, moved', ['whole', 'window'], 'whole'),
  { flag: '--svg <file>', text: 'draw it' },
  JSON_OPTION,
];

function among(flag: string, text: string, choices: readonly string[], usual: string): OptionRow {
  return { flag, text, choices, usual };
}

export const command = commandOf<PlanFlags>({
  options: OPTIONS,
  examples: [
    {
      line: 'plan --model llama-3-70b --prefill tp=8 --decode tp=4',
      does: 'what one transfer costs: runs, bytes, work requests, time, or why it cannot be done',
      more: '[more](docs/PLAN.md)',
    },
  ],
  help: HELP,
  run: (_, flags) => plan(flags),
});

function plan(flags: PlanFlags): number {
  const { model: source, tokens, prefix } = flags;
  if (prefix >= tokens)
    throw new UsageError('FLAG', `--prefix ${prefix}: must be below --tokens ${tokens}, or nothing is moved`);
  const prefill = readSide('--prefill', flags.prefill);
  const decode = readSide('--decode', flags.decode);
  const model = modelOf(source);
  const dtype = flags.kvDtype === 'auto' ? model.dtype : flags.kvDtype;
  if (dtype === null)
    throw new UsageError('MODEL-CONFIG', `${source}: torch_dtype: is missing; add it or give --kv-dtype`);
  const report = planOf({ ...flags, model, dtype, prefill, decode, chunking: flags.chunking === 'on' });
  if (flags.svg !== undefined) writeWhole(flags.svg, planPicture(report));
  if (flags.json) printJson(report);
  else print(planText(report));
  return EXIT.fine;
}

function modelOf(source: string): ModelSpec {
  const named = modelByName(source);
  if (named !== undefined) return named;
  if (source !== '-' && !existsSync(source) && !/[./\\]/.test(source))
    throw new UsageError(
      'MODEL',
      `${JSON.stringify(source)} is neither a file nor a known model; use a config.json or one of ${MODEL_NAMES.join(', ')}`,
    );
  return readModelConfig(readText(source, 'model'), source);
}
