import { describe, expect, test } from 'vitest';
import { BrokenBelief, UsageError } from '../../../src/base/failure.ts';
import { reportOf, showFinding } from '../../../src/cli/finding-report.ts';
import { exitOf, harnessAsJson, showHarnessFailures } from '../../../src/cli/harness-report.ts';
import { type Campaign, runCampaign } from '../../../src/explore/campaign.ts';
import { HARNESS_FAILURES_MAX } from '../../../src/explore/harness-failure.ts';
import { readReplayLine } from '../../../src/explore/replay-line.ts';
import { type RunOptions, runSeed } from '../../../src/explore/run.ts';
import { shrinkSeed } from '../../../src/explore/shrink.ts';
import type { Fabric } from '../../../src/io/fabric.ts';
import { IN_TURN } from '../../../src/proxy/choose.ts';
import { detailInWords } from '../../../src/report/violation-words.ts';
import type { Scenario } from '../../../src/sim/scenario.ts';
import { createWasmFabric } from '../../../src/sim/wasm-fabric.ts';
import { AS_WRITTEN_MIX } from '../../../src/zoo/as-written/mix.ts';
import { SHIPPED_MIX } from '../../../src/zoo/shipped.ts';
import { plantInEffects, plantInMessages } from '../../canary/plant.ts';
import { isNamed } from '../../helpers/messages.ts';
import { newMemory } from '../../helpers/world.ts';

const memory = newMemory();
/** Every run of it moves bytes, and some seeds of the first ones fail. */
const FAULTY: Scenario = { ...AS_WRITTEN_MIX, faults: ['F1'] };

/** Breaks the harness in the middle of the runs that `breaks` names, by their order. */
function breaking(breaks: (run: number) => boolean, atPost = 2): Pick<RunOptions, 'fabric'> {
  let runs = 0;
  return {
    fabric: () => {
      const run = runs++;
      const fabric = createWasmFabric(memory);
      let posts = 0;
      const post: Fabric['post'] = (connection, operation, batch, id) => {
        if (breaks(run) && ++posts === atPost) throw new BrokenBelief('INV-NIC-1', 'a planted break');
        fabric.post(connection, operation, batch, id);
      };
      return { ...fabric, post };
    },
  };
}

function campaignOf(scenario: Scenario, seeds: number, options: RunOptions = {}): Campaign {
  const range = { seedFrom: 0, goOn: (done: number) => done < seeds, stopAtFirst: false };
  return runCampaign(memory, { scenario, ...range, ...options });
}

describe('a schedule that breaks the harness', () => {
  const whole = campaignOf(FAULTY, 24);
  const broken = campaignOf(
    FAULTY,
    24,
    breaking((run) => run === 6 || run === 12),
  );

  test('is named with its seed, code, message and stack, and the campaign goes on', () => {
    expect(broken.schedules).toBe(24);
    expect(broken.harness.count).toBe(2);
    expect(broken.harness.kept).toMatchObject([
      { seed: 6, code: 'INV-NIC-1', message: 'a planted break', during: 'run' },
      { seed: 12, code: 'INV-NIC-1' },
    ]);
    expect(broken.harness.kept[0]!.stack[0]).toMatch(/campaign\.test\.ts:\d+/);
  });

  test('costs none of the findings of the others', () => {
    const seedsOf = ({ findings }: Campaign): number[] => findings.map(({ seed }) => seed);
    expect(whole.harness.count).toBe(0);
    expect(seedsOf(whole).length).toBeGreaterThan(0);
    expect(seedsOf(broken)).toEqual(seedsOf(whole));
    expect(exitOf(broken.findings.length, broken.harness)).toBe(3);
    expect(exitOf(whole.findings.length, whole.harness)).toBe(1);
    expect(exitOf(0, whole.harness)).toBe(0);
  });

  test('leaves the memory as the next schedule would find it in a process of its own', () => {
    const options = breaking((run) => run % 2 === 0);
    let breaks = 0;
    for (let seed = 0; seed < 12; seed++) {
      try {
        runSeed(memory, FAULTY, seed, options);
      } catch {
        breaks++;
      }
      const after = runSeed(memory, FAULTY, seed + 1, options).result;
      const fresh = runSeed(newMemory(), FAULTY, seed + 1).result;
      expect([after.digest, after.violation]).toEqual([fresh.digest, fresh.violation]);
    }
    expect(breaks).toBeGreaterThan(5);
  });

  test('is printed with a line that runs it again, in text and in JSON', () => {
    const page = { scenario: FAULTY, flags: '' };
    const text = showHarnessFailures(broken.harness, page).join('\n');
    expect(text).toContain('the harness failed in seed 6: INV-NIC-1: a planted break');
    const line = text.match(/replay: npx moriarty replay (mor2\.\S+)/)![1]!;
    expect(readReplayLine(line)).toMatchObject({ scenario: FAULTY, source: { seed: 6 } });
    const told = harnessAsJson(broken.harness, page);
    expect(told).toMatchObject({
      harnessFailureCount: 2,
      harnessFailures: [{ seed: 6, code: 'INV-NIC-1', message: 'a planted break' }, { seed: 12 }],
    });
    expect(JSON.stringify(told)).toContain(line);
  });

  test('is kept a bounded number of times, and the rest is counted', () => {
    const all = campaignOf(
      FAULTY,
      40,
      breaking(() => true),
    );
    expect(all.harness.kept).toHaveLength(HARNESS_FAILURES_MAX);
    expect(all.harness.count).toBeGreaterThan(HARNESS_FAILURES_MAX);
    const rest = all.harness.count - HARNESS_FAILURES_MAX;
    expect(showHarnessFailures(all.harness, { scenario: FAULTY, flags: '' }).at(-1)).toBe(
      `and ${rest} more harness failures`,
    );
  });

  test('does not count as the first violation', () => {
    const first = runCampaign(memory, {
      scenario: FAULTY,
      seedFrom: 0,
      goOn: (done) => done < 24,
      stopAtFirst: true,
      ...breaking((run) => run === 0),
    });
    expect(first.harness.count).toBe(1);
    expect(first.findings).toHaveLength(1);
  });

  test('with a mistake of the caller in the very first one is that mistake', () => {
    const scenario = { ...AS_WRITTEN_MIX, faults: ['F99'] };
    expect(() => campaignOf(scenario, 3)).toThrow(UsageError);
  });
});

describe('a finding', () => {
  const [finding] = campaignOf(FAULTY, 24).findings;

  test('is shrunk past tapes that break the harness, which are told with the tape', () => {
    const { seed, violation } = finding!;
    const options = breaking((run) => run > 2 && run < 9, 1);
    const shrunk = shrinkSeed(memory, FAULTY, seed, violation, options);
    expect(shrunk.harness.count).toBeGreaterThan(0);
    expect(shrunk.harness.kept[0]).toMatchObject({ seed, during: 'shrink' });
    expect(shrunk.harness.kept[0]!.tape).not.toBeNull();
  });

  test('is told as it was found when the harness breaks over its report', () => {
    const fabric = () => {
      throw new BrokenBelief('INV-NIC-1', 'a planted break');
    };
    const report = reportOf(memory, FAULTY, finding!, { fabric });
    expect(report.harness.kept).toMatchObject([{ seed: finding!.seed, during: 'report' }]);
    const text = showFinding(report);
    expect(text).toContain(detailInWords(finding!.violation, finding!.actorNames));
    expect(text).toContain('not shrunk, because the harness failed over it');
    expect(readReplayLine(report.replay.split(' ').at(-1)!).source).toEqual({ seed: finding!.seed });
  });

  test('of a connector that keeps state from run to run is told as such', () => {
    let grants = 0;
    const connector = plantInMessages((message, to) => {
      if (isNamed(message, 'grant') && grants++ === 0) throw new Error('once only');
      return { to, message };
    });
    const options = { parts: () => ({ connector, policy: IN_TURN }) };
    const [once] = campaignOf(SHIPPED_MIX, 5, options).findings;
    expect(once!.violation).toMatchObject({ breach: 'threw', ids: { thrown: 'once only' } });
    expect(showFinding(reportOf(memory, SHIPPED_MIX, once!, options))).toMatch(
      /once only[\s\S]*FAIL I7 replay/,
    );
    expect(showFinding(reportOf(memory, SHIPPED_MIX, once!, options))).toContain('passes when it runs again');
  });
});

describe('the goals of a campaign', () => {
  const namesOf = (scenario: Scenario, options: RunOptions = {}): string[] => [
    ...campaignOf(scenario, 3, options).goals.keys(),
  ];

  test('are those that the scenario allows and the connector names, whether reached or not', () => {
    const ofFirst = namesOf(AS_WRITTEN_MIX);
    expect(ofFirst).toContain('handshake-shared');
    for (const other of ['claim-refused', 'revoke-fenced', 'rank-crashed', 'preemption', 'prefix-hit-decode'])
      expect(ofFirst).not.toContain(other);
    const ofShipped = namesOf(SHIPPED_MIX);
    for (const own of ['claim-refused', 'revoke-fenced', 'rank-crashed', 'preemption', 'prefix-hit-decode'])
      expect(ofShipped).toContain(own);
    const calm = { ...SHIPPED_MIX, hazards: { ...SHIPPED_MIX.hazards, crashes: false, aborts: false } };
    expect(namesOf(calm)).not.toContain('request-aborted');
  });

  test('of a connector of your own are those that it names', () => {
    const { connector } = plantedWith(['mine-reached', 'mine-missed']);
    const { goals } = campaignOf(SHIPPED_MIX, 20, { parts: () => ({ connector, policy: IN_TURN }) });
    expect(goals.get('mine-reached')).toBeGreaterThan(0);
    expect(goals.get('mine-missed')).toBe(0);
    expect(goals.has('claim-refused')).toBe(false);
  });

  test('that are no list of names are refused before anything runs', () => {
    const { connector } = plantedWith('mine-reached' as unknown as string[]);
    expect(() => campaignOf(SHIPPED_MIX, 20, { parts: () => ({ connector, policy: IN_TURN }) })).toThrow(
      expect.objectContaining({ code: 'PARTS' }),
    );
  });

  function plantedWith(goals: readonly string[]) {
    const told = { kind: 'note', note: { kind: 'goal', name: 'mine-reached' } } as const;
    const connector = plantInEffects(() => (effect, pass) => {
      if (effect.kind !== 'note' || effect.note.kind !== 'goal') return pass(effect);
      pass(told);
    });
    return { connector: { ...connector, goals } };
  }
});
