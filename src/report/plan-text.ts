import { greatest } from '../base/lists.ts';
import {
  countOf,
  grouped,
  type PlanReport,
  type PlanSide,
  rankName,
  shortBytes,
  shortMicros,
  shortRange,
  tpText,
} from './plan-report.ts';

/** A transfer plan as a table for people. */

const HEAD = ['P rank', 'D rank', 'heads', 'layers', 'runs before', 'runs', 'bytes', 'work requests', 'time'];

/** Columns that hold names; the others are numbers and stand to the right. */
const NAMES = 4;

export function planText(report: PlanReport): string {
  return [
    ...headLines(report),
    '',
    ...(report.refused === null ? planned(report) : [`refused: ${report.refused}`]),
    ...report.notes.map((note) => `note: ${note}`),
  ].join('\n');
}

function headLines(report: PlanReport): string[] {
  const { model, mode, tokens, prefix, nic, chunking, placement } = report;
  const known = prefix > 0 ? `, ${grouped(prefix)} of them at D already` : '';
  return [
    `${model}: ${grouped(tokens)} tokens${known}, ${mode.toUpperCase()} mode`,
    `  P  ${sideText(report.prefill)}`,
    `  D  ${sideText(report.decode)}`,
    `  NIC ${nic}, chunking ${chunking ? 'on' : 'off'}, blocks ${placement}`,
  ];
}

export function sideText(side: PlanSide): string {
  const kernel = side.kernelBlock === side.block ? '' : ` (kernel block ${side.kernelBlock})`;
  return `${tpText(side)}, pp ${side.pp}, block ${side.block}${kernel}, ${side.layout}, ${side.dtype}, ${grouped(side.blocks)} blocks`;
}

function planned(report: PlanReport): string[] {
  const rows = report.pairs.map((pair) => [
    rankName('P', report.prefill, pair.prefillRank),
    rankName('D', report.decode, pair.decodeRank),
    shortRange(pair.heads),
    shortRange(pair.layers),
    grouped(pair.runsBefore),
    grouped(pair.runs),
    grouped(pair.bytes),
    grouped(pair.workRequests),
    shortMicros(pair.micros),
  ]);
  const sum = (field: 'runs' | 'workRequests'): number =>
    report.pairs.reduce((total, pair) => total + pair[field], 0);
  return [
    ...table([HEAD, ...rows]),
    '',
    `bytes per token   ${grouped(report.bytesPerToken)}`,
    `bytes in all      ${grouped(report.totalBytes)} (${shortBytes(report.totalBytes)}) between ${countOf(report.pairs.length, 'pair')}`,
    `runs              ${grouped(sum('runs'))}, posted as ${countOf(sum('workRequests'), 'work request')}`,
    `slowest pair      ${shortMicros(report.slowestMicros)} (predicted)`,
  ];
}

function table(rows: readonly (readonly string[])[]): string[] {
  const widths = HEAD.map((_, column) => greatest(rows.map((row) => row[column]!.length)));
  return rows.map((row) =>
    row
      .map((cell, column) => (column < NAMES ? cell.padEnd(widths[column]!) : cell.padStart(widths[column]!)))
      .join('  ')
      .trimEnd(),
  );
}
