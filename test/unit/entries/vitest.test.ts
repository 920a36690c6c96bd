import { expect, test } from 'vitest';
import { shipped } from '../../../src/connector/shipped/index.ts';
import '../../../src/vitest.ts';
import { plantInWorker } from '../../canary/plant.ts';

const spoiled = plantInWorker(() => ({
  startLoadKv: () => {
    throw new TypeError('not today');
  },
}));

test('the shipped connector survives', () => {
  expect(shipped).toSurvive({ schedules: 20 });
  expect(() => shipped).toSurvive({ schedules: 5, seedFrom: 100 });
  expect(() => expect(shipped).not.toSurvive({ schedules: 1 })).toThrow(/expected not to/);
});

test('a spoiled one does not, and the failure is a page with the line that replays it', () => {
  expect(spoiled).not.toSurvive({ schedules: 20 });
  expect(() => expect(spoiled).toSurvive({ schedules: 20 })).toThrow(
    /^I7 broken: [\s\S]*TypeError: not today[\s\S]*FAIL I7 replay: npx moriarty replay mor2\./,
  );
});
