import { greatest } from '../base/lists.ts';
import {
  countOf,
  grouped,
  type PlanPair,
  type PlanReport,
  type PlanSide,
  type Range,
  shortBytes,
  shortMicros,
  shortRange,
  tpText,
} from './plan-report.ts';

/**
 * A transfer plan as an SVG picture: P ranks on the left, D ranks on the right, one arrow for each pair, as thick as its
 * bytes. What an arrow carries is written inside the two boxes it joins, so no two texts can meet. Lengths are pixels.
 */

const ROW = 18;
const BOX_PAD = 7;
const BOX_GAP = 12;
const STAGE_PAD = 10;
const STAGE_HEAD = 20;
const MARGIN = 20;
const TOP = 84;
const MIDDLE_MIN = 300;
const MIDDLE_MAX = 700;
const CHAR = 6.7;
const ARROW_HEAD = 9;
/** Of the pair with the most bytes: as thick as a row allows, thinner where many arrows cross. */
const STROKE_MAX = 12;
const STROKE_CROWDED = 5;
const CROWD = 16;

const FONT = 'font-family="system-ui, Helvetica, Arial, sans-serif"';
const INK = '#1b2330';
const QUIET = '#5b6675';
const COLOURS = [
  '#2b6cb0',
  '#b7791f',
  '#2f855a',
  '#b83280',
  '#6b46c1',
  '#c05621',
  '#2c7a7b',
  '#9b2c2c',
] as const;

/** One rank's box. Its rows are its name and one line for each pair it is part of. */
interface Box {
  readonly rank: number;
  readonly top: number;
  readonly height: number;
  readonly pairs: readonly PlanPair[];
}

interface StageFrame {
  readonly label: string;
  readonly top: number;
  readonly height: number;
}

interface Column {
  readonly letter: 'P' | 'D';
  readonly left: number;
  readonly width: number;
  readonly boxes: readonly Box[];
  readonly frames: readonly StageFrame[];
  readonly bottom: number;
}

export function planPicture(report: PlanReport): string {
  const heights = [layColumn('P', report, 0, 0), layColumn('D', report, 0, 0)].map(({ bottom }) => bottom);
  const height = greatest(heights);
  const middle = Math.min(MIDDLE_MAX, Math.max(MIDDLE_MIN, height / 3));
  const prefill = layColumn('P', report, MARGIN + STAGE_PAD, TOP + (height - heights[0]!) / 2);
  const right = prefill.left + prefill.width + middle;
  const decode = layColumn('D', report, right, TOP + (height - heights[1]!) / 2);
  const heading = headings(report, prefill, decode);
  const size = [
    Math.max(decode.left + decode.width + STAGE_PAD + MARGIN, heading.width),
    TOP + height + MARGIN,
  ].map(px);
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${size[0]}" height="${size[1]}" viewBox="0 0 ${size[0]} ${size[1]}" ${FONT} font-size="12">`,
    `<rect width="100%" height="100%" fill="#ffffff"/>`,
    ...heading.lines,
    ...columnLines(prefill, report.prefill, report.pairs.length > 0),
    ...columnLines(decode, report.decode, report.pairs.length > 0),
    ...report.pairs.map((pair) => arrow(pair, report, prefill, decode)),
    ...(report.refused === null ? [] : refusal(report.refused, prefill, decode)),
    '</svg>',
    '',
  ].join('\n');
}

function layColumn(letter: 'P' | 'D', report: PlanReport, left: number, from: number): Column {
  const side = letter === 'P' ? report.prefill : report.decode;
  const byRank = new Map<number, PlanPair[]>();
  for (const pair of report.pairs) {
    const rank = letter === 'P' ? pair.prefillRank : pair.decodeRank;
    byRank.set(rank, [...(byRank.get(rank) ?? []), pair]);
  }
  const boxes: Box[] = [];
  const frames: StageFrame[] = [];
  let y = from;
  side.stages.forEach((layers, stage) => {
    const top = y;
    if (side.pp > 1) y += STAGE_HEAD;
    for (let rank = stage * side.tp; rank < (stage + 1) * side.tp; rank++) {
      const pairs = byRank.get(rank) ?? [];
      const height = 2 * BOX_PAD + ROW * Math.max(1 + pairs.length, 1);
      boxes.push({ rank, top: y, height, pairs });
      y += height + BOX_GAP;
    }
    if (side.pp > 1) frames.push({ label: `stage ${stage}: ${layersText(layers)}`, top, height: y - top });
    y += side.pp > 1 ? BOX_GAP : 0;
  });
  const labels = boxes.flatMap((box) => [
    sideLabel(letter, side),
    nameOf(letter, side, box.rank),
    ...box.pairs.map((pair) => rowText(letter, pair)),
  ]);
  const width = greatest(
    labels.map((label) => label.length * CHAR + 2 * BOX_PAD),
    150,
  );
  return { letter, left, width, boxes, frames, bottom: y };
}

function nameOf(letter: 'P' | 'D', side: PlanSide, rank: number): string {
  return `${letter}${rank}${side.pp > 1 ? `, TP rank ${rank % side.tp}` : ''}`;
}

function layersText(layers: Range): string {
  return `layer${layers[1] - layers[0] === 1 ? '' : 's'} ${shortRange(layers)}`;
}

/** P's end of an arrow says what is sent, D's end what it costs. */
function rowText(letter: 'P' | 'D', pair: PlanPair): string {
  if (letter === 'D')
    return `P${pair.prefillRank}: ${shortBytes(pair.bytes)}, ${grouped(pair.workRequests)} WR, ${shortMicros(pair.micros)}`;
  const heads = `head${pair.heads[1] - pair.heads[0] === 1 ? '' : 's'} ${shortRange(pair.heads)}`;
  return `${heads}, ${layersText(pair.layers)} to D${pair.decodeRank}`;
}

function columnLines(column: Column, side: PlanSide, isPlanned: boolean): string[] {
  const { letter, left, width } = column;
  const x = letter === 'P' ? left + width - BOX_PAD : left + BOX_PAD;
  const anchor = letter === 'P' ? 'end' : 'start';
  const frames = column.frames.flatMap(({ label, top, height }) => [
    `<rect x="${px(left - STAGE_PAD)}" y="${px(top)}" width="${px(width + 2 * STAGE_PAD)}" height="${px(height)}" rx="6" fill="none" stroke="#9aa5b1" stroke-dasharray="4 3"/>`,
    text(left, top + 14, label, `fill="${QUIET}" font-size="11"`),
  ]);
  const boxes = column.boxes.flatMap(({ rank, top, height, pairs }) => {
    const isIdle = isPlanned && pairs.length === 0;
    const idle = letter === 'P' ? ' sends nothing' : ' receives nothing';
    const name = `${nameOf(letter, side, rank)}${isIdle ? idle : ''}`;
    return [
      `<rect class="rank" x="${px(left)}" y="${px(top)}" width="${px(width)}" height="${px(height)}" rx="4" fill="${isIdle ? '#f4f5f7' : '#eaf1f8'}" stroke="${isIdle ? '#c5ccd3' : '#7a8796'}"/>`,
      text(left + BOX_PAD, top + BOX_PAD + 12, name, `fill="${isIdle ? QUIET : INK}" font-weight="600"`),
      ...pairs.map((pair, row) =>
        text(x, rowY(top, row) + 4, rowText(letter, pair), `fill="${INK}" text-anchor="${anchor}"`),
      ),
    ];
  });
  return [...frames, ...boxes];
}

/** The middle of a box's row for its pair number `row`. */
function rowY(top: number, row: number): number {
  return top + BOX_PAD + ROW * (row + 1.5);
}

function arrow(pair: PlanPair, report: PlanReport, prefill: Column, decode: Column): string {
  const from = { x: prefill.left + prefill.width, y: portOf(prefill, pair.prefillRank, pair) };
  const to = { x: decode.left, y: portOf(decode, pair.decodeRank, pair) };
  const most = greatest(
    report.pairs.map((one) => one.bytes),
    1,
  );
  const stroke = Math.max(
    1,
    ((report.pairs.length > CROWD ? STROKE_CROWDED : STROKE_MAX) * pair.bytes) / most,
  );
  const half = Math.max(ARROW_HEAD / 2, stroke / 2 + 2);
  const end = to.x - ARROW_HEAD - 2;
  const bend = (end - from.x) / 2;
  const colour = COLOURS[pair.prefillRank % COLOURS.length]!;
  const title = `P${pair.prefillRank} to D${pair.decodeRank}: ${rowText('P', pair)}, ${grouped(pair.bytes)} bytes, ${grouped(pair.runs)} runs, ${grouped(pair.workRequests)} work requests, ${shortMicros(pair.micros)}`;
  return [
    `<g class="arrow"><title>${escaped(title)}</title>`,
    `<path d="M ${px(from.x)} ${px(from.y)} C ${px(from.x + bend)} ${px(from.y)}, ${px(end - bend)} ${px(to.y)}, ${px(end)} ${px(to.y)}" fill="none" stroke="${colour}" stroke-opacity="0.75" stroke-width="${px(stroke)}"/>`,
    `<path d="M ${px(end)} ${px(to.y - half)} L ${px(to.x - 2)} ${px(to.y)} L ${px(end)} ${px(to.y + half)} Z" fill="${colour}"/></g>`,
  ].join('');
}

function portOf(column: Column, rank: number, pair: PlanPair): number {
  const box = column.boxes[rank]!;
  return rowY(box.top, box.pairs.indexOf(pair));
}

function headings(report: PlanReport, prefill: Column, decode: Column): { lines: string[]; width: number } {
  const { model, tokens, prefix, mode, nic, totalBytes, slowestMicros, refused } = report;
  const known = prefix > 0 ? ` (${grouped(prefix)} at D already)` : '';
  const title = `${model}, ${grouped(tokens)} tokens${known}, ${mode.toUpperCase()}`;
  const sum =
    refused === null
      ? `${shortBytes(totalBytes)} in ${countOf(report.pairs.length, 'pair')}; slowest ${shortMicros(slowestMicros)} predicted (NIC ${nic})`
      : 'refused';
  const lines = [
    text(MARGIN, 26, title, `fill="${INK}" font-size="16" font-weight="600"`),
    text(MARGIN, 45, sum, `fill="${QUIET}"`),
    text(prefill.left, TOP - 12, sideLabel('P', report.prefill), `fill="${QUIET}"`),
    text(decode.left, TOP - 12, sideLabel('D', report.decode), `fill="${QUIET}"`),
  ];
  return { lines, width: Math.max(title.length * 9, sum.length * CHAR) + 2 * MARGIN };
}

function sideLabel(letter: 'P' | 'D', side: PlanSide): string {
  const kernel = side.kernelBlock === side.block ? '' : ` (kernel ${side.kernelBlock})`;
  return `${letter}: ${tpText(side)}, pp ${side.pp}, block ${side.block}${kernel}, ${side.layout}, ${side.dtype}`;
}

/** The cause, in the gap between the columns where the arrows would be. */
function refusal(cause: string, prefill: Column, decode: Column): string[] {
  const middle = (prefill.left + prefill.width + decode.left) / 2;
  const lines = wrap(cause, Math.floor((decode.left - prefill.left - prefill.width - 40) / CHAR));
  const top = TOP + 24;
  const style = 'fill="#9b1c1c" text-anchor="middle"';
  return [
    text(middle, top, 'refused', `${style} class="refused" font-weight="600" font-size="14"`),
    ...lines.map((line, index) => text(middle, top + 20 + index * 16, line, style)),
  ];
}

function wrap(words: string, most: number): string[] {
  const lines = [''];
  for (const word of words.split(' ')) {
    const last = lines.at(-1)!;
    if (last !== '' && last.length + 1 + word.length > most) lines.push(word);
    else lines[lines.length - 1] = last === '' ? word : `${last} ${word}`;
  }
  return lines;
}

function text(x: number, y: number, words: string, style: string): string {
  return `<text x="${px(x)}" y="${px(y)}" ${style}>${escaped(words)}</text>`;
}

const ENTITIES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };

function escaped(words: string): string {
  return words.replace(/[&<>"]/g, (char) => ENTITIES[char]!);
}

/** A length with one decimal at most, so that pictures are short and equal everywhere. */
function px(value: number): string {
  return String(Math.round(value * 10) / 10);
}
