import { UsageError } from '../../base/failure.ts';
import type { Figure } from '../bench/figures.ts';
import { kvFigures } from '../bench/kv.ts';
import { nativeFigures } from '../bench/native.ts';
import { nicFigures } from '../bench/nic.ts';
import { worldFigures } from '../bench/world.ts';
import { coldFigures } from '../bench/world-cold.ts';
import { type CommandBody, commandOf } from '../command.ts';
import { JSON_OPTION, wholeNumber } from '../options.ts';
import { EXIT, print, printJson } from '../output.ts';

interface BenchFlags {
  readonly rounds: number;
  readonly json?: boolean;
}

/** A suite measures and judges its own figures. */
export type Suite = (rounds: number) => Figure[] | Promise<Figure[]>;

type Suites = Readonly<Record<string, Suite>>;

const SUITES: Suites = {
  kv: kvFigures,
  native: nativeFigures,
  nic: nicFigures,
  world: worldFigures,
  // Asked by `world`, which needs fresh processes.
  cold: coldFigures,
};

export function benchOf(suites: Suites): CommandBody {
  return commandOf<BenchFlags>({
    argument: `one of: ${Object.keys(suites).join(', ')}`,
    options: [
      {
        flag: '--rounds <n>',
        text: 'rounds of which the median counts',
        parse: wholeNumber(1, 1000),
        usual: 7,
      },
      JSON_OPTION,
    ],
    examples: [
      {
        line: 'bench kv',
        does: 'speed as ratios within one run (also `world`, `nic`, `native`, `cold`); exits 1 when a floor is missed',
      },
    ],
    run: async ([name], flags) => show(await suiteOf(suites, name!)(flags.rounds), flags),
  });
}

export const command = benchOf(SUITES);

function suiteOf(suites: Suites, name: string): Suite {
  const suite = Object.hasOwn(suites, name) ? suites[name] : undefined;
  if (suite === undefined)
    throw new UsageError(
      'SUITE',
      `${JSON.stringify(name)} is not a suite; use one of: ${Object.keys(suites).join(', ')}`,
    );
  return suite;
}

function show(figures: readonly Figure[], flags: BenchFlags): number {
  if (flags.json) printJson({ figures });
  else for (const line of showFigures(figures)) print(line);
  return figures.every((figure) => figure.holds) ? EXIT.fine : EXIT.violation;
}

function showFigures(figures: readonly Figure[]): string[] {
  return figures.map(({ name, value, unit, against, ratio, floor, holds, note }) => {
    const more = note === undefined ? '' : `; ${note}`;
    if (Number.isNaN(ratio)) return `MISSED ${name}: not measured${more}`;
    const verdict = holds ? 'holds ' : 'MISSED';
    return `${verdict} ${name}: ${value} ${unit}; ${ratio} against ${against}, bound ${floor}${more}`;
  });
}
