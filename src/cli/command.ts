/** What a command is: its row in the registry (commands.ts), and its file under commands/, which is loaded when it is asked for. */

export interface CommandRow {
  /** Its name and its argument, if it takes one: `check [scenario]`. */
  readonly form: string;
  readonly summary: string;
  readonly load: () => Promise<{ readonly command: CommandBody }>;
}

export interface CommandBody<Flags = object> {
  /** What the argument of the form is. */
  readonly argument?: string;
  readonly options: readonly OptionRow[];
  /** Rows of the README, and the end of `--help`. */
  readonly examples: readonly Example[];
  /** Text after the options of `--help`. */
  readonly help?: string;
  /** The exit code. Words are what was given for the argument. */
  readonly run: (words: readonly string[], flags: Flags) => number | Promise<number>;
}

export interface OptionRow {
  /** `--seeds <n>`, or `--first` for a switch. */
  readonly flag: string;
  readonly text: string;
  readonly choices?: readonly string[];
  /** @throws OddValue */
  readonly parse?: (text: string) => unknown;
  readonly usual?: unknown;
  /** The name of an option that cannot be given besides. */
  readonly conflicts?: string;
  readonly required?: true;
}

export interface Example {
  /** After `npx moriarty`. */
  readonly line: string;
  readonly does: string;
  /** Where a page says more: a link of the README. */
  readonly more?: string;
}

/** What the value of an option must be, when it is not. */
export class OddValue extends Error {}

/** A command with the flags that its options give; whoever calls it has parsed them by these options. */
export function commandOf<Flags>(body: CommandBody<Flags>): CommandBody {
  return body as CommandBody;
}
