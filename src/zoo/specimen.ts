import type { Connector } from '../connector/plug.ts';
import type { ModuleRef } from '../node/user-module.ts';
import type { FailureKey } from '../oracle/verdict.ts';
import type { ChoicePolicy } from '../proxy/choose.ts';
import type { Scenario } from '../sim/scenario.ts';

/** Who is under attack: a connector behind the plug and the proxy's policy. Made anew for each run. */
export interface Parts {
  readonly connector: Connector;
  readonly policy: ChoicePolicy;
  /** The module that they come from, if they were loaded from one; a replay line names it. */
  readonly module?: ModuleRef;
}

/** A known bug of a specimen: a switch of its own. Absent it is mended, and everything else is the same code. */
export interface Bug {
  /** The part of the connector or proxy that has it. */
  readonly where: string;
  readonly what: string;
  /** The invariants of docs/INVARIANTS.md that break, the usual one first. */
  readonly breaks: readonly string[];
  /** Every part of the system at which it has been seen to show; what a row does not say may be anything. */
  readonly places: readonly Partial<FailureKey>[];
}

/**
 * One connector that can be attacked by its name: all that the program knows of it. The registry lists the rows; scenario
 * files, the choices of the command line and the tables of the documents are made from them.
 */
export interface Specimen {
  readonly name: string;
  /** One line for a list. */
  readonly summary: string;
  /** By id, in the order in which people count them. */
  readonly bugs: { readonly [id: string]: Bug };
  /** What a campaign varies when nobody says otherwise; its `connector` is the specimen's name. */
  readonly scenario: Scenario;
  /** `bugs` are the ids of those that are switched on. */
  readonly parts: (bugs: readonly string[]) => Parts;
}
