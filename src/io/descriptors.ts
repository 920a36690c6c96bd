import { UsageError } from '../base/failure.ts';
import {
  type Cursor,
  INT32,
  type IntRange,
  openMsgpack,
  readArrayCount,
  readBin,
  readInt,
  readText,
  skipObject,
  UINT32,
  UINT64,
  writeArrayCount,
  writeBin,
  writeInt,
  writeText,
} from './msgpack.ts';

/**
 * What MoRI engines tell each other about themselves and their memory (mori-io.md A2). The order of the
 * fields is the order on the wire. Errors are those of msgpack.ts.
 */

/** Bytes of an IPC or fabric handle. */
export const HANDLE_BYTES = 64;

export interface EngineDesc {
  key: string;
  nodeId: string;
  hostname: string;
  /** Dotted IPv4: peers pass it to inet_addr. */
  host: string;
  /** Signed upstream. 1 marks an engine that speaks XGMI alone. */
  port: number;
  pid: number;
}

export interface MemoryDesc {
  engineKey: string;
  /** Counts up from 0 in each engine. */
  id: number;
  /** -1 for CPU memory, by convention. */
  deviceId: number;
  deviceBusId: string;
  /** Address. */
  data: bigint;
  /** Bytes. */
  size: bigint;
  /** A MemoryLocationType; a plain number because upstream takes any u32 from the wire. */
  loc: number;
  /** HANDLE_BYTES bytes. */
  ipcHandle: Uint8Array;
  /** -1 when unknown. */
  numaNode: number;
  /** Bytes from the start of the allocation. */
  ipcOffset: bigint;
  /** HANDLE_BYTES bytes. */
  fabricHandle: Uint8Array;
  vpodId: number;
  vpodPpodId: string;
  /** Bytes. */
  fabricOffset: bigint;
  /** Bytes. */
  fabricAllocSize: bigint;
}

/** An engine that says nothing. Upstream leaves `port` uninitialised; we give 0, so that runs repeat. */
export function emptyEngineDesc(): EngineDesc {
  return { key: '', nodeId: '', hostname: '', host: '', port: 0, pid: 0 };
}

/** A value-initialised MemoryDesc: 146 bytes when packed. */
export function emptyMemoryDesc(): MemoryDesc {
  return {
    engineKey: '',
    id: 0,
    deviceId: -1,
    deviceBusId: '',
    data: 0n,
    size: 0n,
    loc: 0,
    ipcHandle: new Uint8Array(HANDLE_BYTES),
    numaNode: -1,
    ipcOffset: 0n,
    fabricHandle: new Uint8Array(HANDLE_BYTES),
    vpodId: -1,
    vpodPpodId: '',
    fabricOffset: 0n,
    fabricAllocSize: 0n,
  };
}

/** EngineDesc.pack: msgpack in its shortest form. @throws UsageError DESC-RANGE, DESC-TEXT */
export function packEngineDesc(desc: EngineDesc): Uint8Array {
  return pack(ENGINE_DESC, desc);
}

/**
 * EngineDesc.unpack, as lenient as upstream: missing fields keep their defaults, surplus ones and what follows are ignored
 * (A2). @throws UsageError with a code of msgpack.ts
 */
export function unpackEngineDesc(bytes: Uint8Array): EngineDesc {
  return unpack(ENGINE_DESC, bytes);
}

/** MemoryDesc.pack: msgpack in its shortest form. @throws UsageError DESC-RANGE, DESC-TEXT */
export function packMemoryDesc(desc: MemoryDesc): Uint8Array {
  return pack(MEMORY_DESC, desc);
}

/** MemoryDesc.unpack, as lenient as unpackEngineDesc; a handle may be shorter than its field (A2). */
export function unpackMemoryDesc(bytes: Uint8Array): MemoryDesc {
  return unpack(MEMORY_DESC, bytes);
}

/** Equality of engines: all six fields. */
export function sameEngineDesc(left: EngineDesc, right: EngineDesc): boolean {
  return (Object.keys(ENGINE_FIELDS) as (keyof EngineDesc)[]).every((name) => left[name] === right[name]);
}

/** Fields 0 to 6, 8 and 9. The handles, the vpod and the fabric numbers do not count (A2). */
const MEMORY_IDENTITY = [
  'engineKey',
  'id',
  'deviceId',
  'deviceBusId',
  'data',
  'size',
  'loc',
  'numaNode',
  'ipcOffset',
] as const satisfies readonly (keyof MemoryDesc)[];

/** Equality of memory as upstream sees it: two descs that differ in their handles alone are equal. */
export function sameMemoryDesc(left: MemoryDesc, right: MemoryDesc): boolean {
  return MEMORY_IDENTITY.every((name) => left[name] === right[name]);
}

/** One way to write a value and to read it back. */
export interface Shape<T> {
  write(out: number[], value: T): void;
  read(cursor: Cursor): T;
}

/** The shapes of all fields, in wire order. */
export type Fields<T> = { readonly [Name in keyof T]: Shape<T[Name]> };

export function pack<T>(shape: Shape<T>, value: T): Uint8Array {
  const out: number[] = [];
  shape.write(out, value);
  return Uint8Array.from(out);
}

/** Bytes after the object are ignored, as upstream ignores them. */
export function unpack<T>(shape: Shape<T>, bytes: Uint8Array): T {
  return shape.read(openMsgpack(bytes));
}

export const text: Shape<string> = { write: writeText, read: readText };
export const u64: Shape<bigint> = {
  write: (out, value) => writeInt(out, value, UINT64),
  read: (cursor) => BigInt(readInt(cursor, UINT64)),
};
export const i32 = smallInt(INT32);
export const u32 = smallInt(UINT32);

/** An integer field that a number holds exactly. */
export function smallInt(range: IntRange): Shape<number> {
  return {
    write: (out, value) => writeInt(out, value, range),
    read: (cursor) => Number(readInt(cursor, range)),
  };
}

/** A field of fixed size that takes a shorter bin: the rest stays zero. A longer one is a type error. */
export function binUpTo(sizeBytes: number): Shape<Uint8Array> {
  return sizedBin(sizeBytes, (foundBytes) => foundBytes <= sizeBytes);
}

/** A field of fixed size whose hand-written converter wants exactly that size. */
export function binExactly(sizeBytes: number): Shape<Uint8Array> {
  return sizedBin(sizeBytes, (foundBytes) => foundBytes === sizeBytes);
}

/** MSGPACK_DEFINE: missing elements keep their defaults, surplus ones are passed over. */
export function lenientArray<T extends object>(fields: Fields<T>, defaults: () => T): Shape<T> {
  const rows = rowsOf(fields);
  return {
    write: (out, value) => writeFields(out, rows, value),
    read: (cursor) => {
      const count = readArrayCount(cursor);
      const value = readFields(cursor, rows, count, defaults());
      for (let extra = rows.length; extra < count; extra += 1) skipObject(cursor);
      return value;
    },
  };
}

/** A hand-written converter: exactly these elements, or a type error. */
export function strictArray<T extends object>(fields: Fields<T>): Shape<T> {
  const rows = rowsOf(fields);
  return {
    write: (out, value) => writeFields(out, rows, value),
    read: (cursor) => {
      const count = readArrayCount(cursor);
      if (count === rows.length) return readFields(cursor, rows, count, {} as T);
      throw new UsageError('DESC-TYPE', `${rows.length} elements expected, found ${count}`);
    },
  };
}

/** A field's name and its shape. */
type Row<T> = { readonly [Name in keyof T]: readonly [Name, Shape<T[Name]>] }[keyof T];

function rowsOf<T extends object>(fields: Fields<T>): readonly Row<T>[] {
  return Object.entries(fields) as unknown as readonly Row<T>[];
}

function writeFields<T>(out: number[], rows: readonly Row<T>[], value: T): void {
  writeArrayCount(out, rows.length);
  for (let at = 0; at < rows.length; at += 1) {
    const [name, shape] = rows[at];
    shape.write(out, value[name]);
  }
}

/** Reads the first `count` fields, or all. */
function readFields<T>(cursor: Cursor, rows: readonly Row<T>[], count: number, into: T): T {
  for (let at = 0; at < rows.length && at < count; at += 1) {
    const [name, shape] = rows[at];
    into[name] = shape.read(cursor);
  }
  return into;
}

function sizedBin(sizeBytes: number, takes: (foundBytes: number) => boolean): Shape<Uint8Array> {
  return {
    write: (out, value) => {
      if (value.length === sizeBytes) return writeBin(out, value);
      throw new UsageError('DESC-RANGE', `${value.length} bytes do not make a field of ${sizeBytes}`);
    },
    read: (cursor) => {
      const found = readBin(cursor);
      if (!takes(found.length)) {
        throw new UsageError('DESC-TYPE', `${found.length} bytes in a field of ${sizeBytes}`);
      }
      const value = new Uint8Array(sizeBytes);
      value.set(found);
      return value;
    },
  };
}

const ENGINE_FIELDS: Fields<EngineDesc> = {
  key: text,
  nodeId: text,
  hostname: text,
  host: text,
  port: i32,
  pid: i32,
};
const ENGINE_DESC = lenientArray(ENGINE_FIELDS, emptyEngineDesc);

const MEMORY_DESC = lenientArray<MemoryDesc>(
  {
    engineKey: text,
    id: u32,
    deviceId: i32,
    deviceBusId: text,
    data: u64,
    size: u64,
    loc: u32,
    ipcHandle: binUpTo(HANDLE_BYTES),
    numaNode: i32,
    ipcOffset: u64,
    fabricHandle: binUpTo(HANDLE_BYTES),
    vpodId: i32,
    vpodPpodId: text,
    fabricOffset: u64,
    fabricAllocSize: u64,
  },
  emptyMemoryDesc,
);
