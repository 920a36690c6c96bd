import type { ModuleRef } from '../node/user-module.ts';
import { looksLikeModule, moduleRef } from '../node/user-module.ts';
import { guestRef, isGuestPath, loadGuest } from './guest.ts';
import { loadOwnConnector, type OwnConnector } from './own-connector.ts';

/** The kinds of connectors of the user's own, told apart by the file that is named. */

export interface OwnKind {
  /** Whether a word is meant as such a file. */
  readonly holds: (word: string) => boolean;
  /** The file as it is now. */
  readonly refOf: (path: string) => ModuleRef;
  /** `python`: the interpreter that was asked for. */
  readonly load: (path: string, python?: string) => OwnConnector | Promise<OwnConnector>;
}

const MODULE: OwnKind = {
  holds: looksLikeModule,
  refOf: moduleRef,
  load: (path) => loadOwnConnector(path),
};

const KINDS: readonly OwnKind[] = [{ holds: isGuestPath, refOf: guestRef, load: loadGuest }, MODULE];

/** Undefined for a word that is no file. */
export function ownKindOf(word: string): OwnKind | undefined {
  return KINDS.find(({ holds }) => holds(word));
}

/** Of what is a file: whatever else it is, the loader of modules says what is wrong with it. */
export function kindOfFile(path: string): OwnKind {
  return ownKindOf(path) ?? MODULE;
}
