import { NICS, type NicTimes, THOR2_SWEEP } from '../../io/profiles.ts';
import type { RdmaBackendConfig } from '../../io/rdma-config.ts';

/** MoRI-IO's published figures (mori-io.md part B), with the settings they were measured with. */
export interface Table {
  readonly name: string;
  readonly times: NicTimes;
  readonly operation: 'read' | 'write';
  readonly config: Partial<RdmaBackendConfig>;
  /** Largest error of a row, as a fraction. */
  readonly bound: number;
  readonly rows: readonly TableRow[];
}

export interface TableRow {
  readonly batch: number;
  readonly bytes: number;
  readonly micros: number;
}

const KIB = 1024;
const MIB = 1024 * 1024;
const ROW_BOUND = 0.05;
const SWEEP_BOUND = 0.15;

type Point = readonly [size: number, micros: number];

function bySize(batch: number, points: readonly Point[]): TableRow[] {
  return points.map(([bytes, micros]) => ({ batch, bytes, micros }));
}

function byBatch(bytes: number, points: readonly Point[]): TableRow[] {
  return points.map(([batch, micros]) => ({ batch, bytes, micros }));
}

const CX7_CONFIG = { qpPerTransfer: 4, enableTransferChunking: true };

export const TABLES: readonly Table[] = [
  {
    name: 'CX7 write',
    times: NICS.cx7,
    operation: 'write',
    config: CX7_CONFIG,
    bound: ROW_BOUND,
    rows: bySize(1, [
      [KIB, 5.87],
      [4 * KIB, 5.88],
      [16 * KIB, 6.11],
      [64 * KIB, 7.2],
      [256 * KIB, 11.03],
      [MIB, 26.95],
      [4 * MIB, 90.44],
      [16 * MIB, 344.46],
      [64 * MIB, 1360.09],
    ]),
  },
  {
    name: 'CX7 read',
    times: NICS.cx7,
    operation: 'read',
    config: CX7_CONFIG,
    bound: ROW_BOUND,
    rows: bySize(1, [
      [KIB, 6.74],
      [4 * KIB, 6.49],
      [16 * KIB, 6.96],
      [64 * KIB, 8.23],
      [256 * KIB, 12.5],
      [MIB, 30],
      [4 * MIB, 99.99],
      [16 * MIB, 379.83],
      [64 * MIB, 1498.58],
    ]),
  },
  {
    name: 'Thor2 write, batch 128',
    times: NICS.thor2,
    operation: 'write',
    config: { qpPerTransfer: 4 },
    bound: ROW_BOUND,
    rows: bySize(128, [
      [8, 36.33],
      [KIB, 37.09],
      [4 * KIB, 42.09],
      [16 * KIB, 74.02],
      [64 * KIB, 202.7],
      [256 * KIB, 717.56],
      [MIB, 2777.76],
    ]),
  },
  {
    name: 'Thor2 read, batch 256',
    times: NICS.thor2,
    operation: 'read',
    config: { qpPerTransfer: 2 },
    bound: ROW_BOUND,
    rows: bySize(256, [
      [8, 120.65],
      [KIB, 117.78],
      [4 * KIB, 130.95],
      [16 * KIB, 194.58],
      [64 * KIB, 458.96],
      [256 * KIB, 1488.69],
      [MIB, 5622.15],
    ]),
  },
  {
    name: 'Thor2 write 1 KiB, 16 queue pairs',
    times: THOR2_SWEEP,
    operation: 'write',
    config: { qpPerTransfer: 16 },
    bound: SWEEP_BOUND,
    rows: byBatch(KIB, [
      [1, 11.1],
      [2, 11.33],
      [4, 12.6],
      [8, 15.07],
      [16, 22.87],
      [32, 25.19],
      [64, 30.61],
      [128, 42.87],
      [256, 62.53],
      [512, 108.37],
      [1024, 192.99],
      [4096, 611.94],
      [16_384, 2390.62],
      [32_768, 4617.83],
    ]),
  },
];
