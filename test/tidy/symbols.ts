import { parseSync } from 'vite';
import { importsOf, targetOf } from './source.ts';

/** Which top-level declarations of the sources an entry of the package reaches, types included. */

interface Node {
  readonly type: string;
  readonly [field: string]: unknown;
}

interface Module {
  /** What each top-level name, its own or an imported one, leads to: names of this file, or `file#export`. */
  readonly uses: ReadonlyMap<string, ReadonlySet<string>>;
  /** Exported name to the name in this file. */
  readonly exported: ReadonlyMap<string, string>;
  /** `export * from`: exported names are looked for there too. */
  readonly stars: readonly string[];
  /** Names that are used by statements that run when the file is loaded. */
  readonly atLoad: ReadonlySet<string>;
  readonly declared: readonly string[];
}

/** All exports of a file, as after `import * as`. */
const ALL = '*';

/** Fields of a node that hold a name of a property and not of a declaration, unless the node is computed. */
const PROPERTY_NAMES: { readonly [type: string]: string } = {
  MemberExpression: 'property',
  Property: 'key',
  PropertyDefinition: 'key',
  MethodDefinition: 'key',
  TSPropertySignature: 'key',
  TSMethodSignature: 'key',
  TSQualifiedName: 'right',
  TSEnumMember: 'id',
};

function namesIn(value: unknown, into: Set<string>): Set<string> {
  if (Array.isArray(value)) for (const item of value) namesIn(item, into);
  else if (value !== null && typeof value === 'object') {
    const node = value as Node;
    if (node.type === 'Identifier') into.add(node.name as string);
    const property = node.computed === true ? undefined : PROPERTY_NAMES[node.type];
    for (const [field, inner] of Object.entries(node)) if (field !== property) namesIn(inner, into);
  }
  return into;
}

/** The names that a declaration makes, each with the nodes that it is made of. */
function declaredBy(statement: Node): [string, unknown][] {
  if (statement.type !== 'VariableDeclaration') {
    const id = statement.id as Node | null | undefined;
    return id?.type === 'Identifier' ? [[id.name as string, statement]] : [];
  }
  return (statement.declarations as Node[]).flatMap((one) =>
    [...namesIn(one.id, new Set())].map((name): [string, unknown] => [name, one]),
  );
}

function nameOf(node: unknown): string {
  const { name, value } = node as { name?: string; value?: string };
  return name ?? value ?? '';
}

class Reader {
  readonly uses = new Map<string, Set<string>>();
  readonly exported = new Map<string, string>();
  readonly stars: string[] = [];
  readonly atLoad = new Set<string>();
  readonly declared: string[] = [];
  readonly #file: string;

  constructor(file: string) {
    this.#file = file;
  }

  read(statement: Node): void {
    const source = (statement.source as Node | null | undefined)?.value as string | undefined;
    if (statement.type === 'ImportDeclaration') this.#import(statement, source!);
    else if (statement.type === 'ExportAllDeclaration') this.#star(statement, source!);
    else if (statement.type === 'ExportNamedDeclaration') this.#export(statement, source);
    else if (statement.type === 'ExportDefaultDeclaration') this.#exportDefault(statement);
    else this.#declare(statement);
  }

  #lead(name: string, to: Iterable<string>): void {
    const known = this.uses.get(name) ?? new Set();
    for (const one of to) known.add(one);
    this.uses.set(name, known);
  }

  #far(source: string, name: string): string[] {
    return source.startsWith('.') ? [`${targetOf(this.#file, source)}#${name}`] : [];
  }

  #import(statement: Node, source: string): void {
    for (const one of statement.specifiers as Node[]) {
      const imported = one.type === 'ImportSpecifier' ? nameOf(one.imported) : undefined;
      const name = imported ?? (one.type === 'ImportDefaultSpecifier' ? 'default' : ALL);
      this.#lead(nameOf(one.local), this.#far(source, name));
    }
  }

  #star(statement: Node, source: string): void {
    const name = statement.exported as Node | null;
    if (name === null) return void this.stars.push(targetOf(this.#file, source));
    this.exported.set(nameOf(name), `${ALL} ${nameOf(name)}`);
    this.#lead(`${ALL} ${nameOf(name)}`, this.#far(source, ALL));
  }

  #export(statement: Node, source: string | undefined): void {
    const declaration = statement.declaration as Node | null;
    if (declaration !== null) {
      this.#declare(declaration);
      for (const [name] of declaredBy(declaration)) this.exported.set(name, name);
    }
    for (const one of statement.specifiers as Node[]) {
      const [local, name] = [nameOf(one.local), nameOf(one.exported)];
      if (source === undefined) this.exported.set(name, local);
      else {
        this.exported.set(name, `again ${name}`);
        this.#lead(`again ${name}`, this.#far(source, local));
      }
    }
  }

  #exportDefault(statement: Node): void {
    this.exported.set('default', 'default');
    this.declared.push('default');
    this.#lead('default', namesIn(statement.declaration, new Set()));
  }

  #declare(statement: Node): void {
    const made = declaredBy(statement);
    if (made.length === 0) namesIn(statement, this.atLoad);
    for (const [name, nodes] of made) {
      this.declared.push(name);
      const used = namesIn(nodes, new Set());
      used.delete(name);
      this.#lead(name, used);
    }
  }
}

function moduleOf(file: string, source: string): Module {
  const { program, errors } = parseSync(file, source);
  if (errors.length > 0) throw new Error(`${file}: ${errors[0]!.message}`);
  const reader = new Reader(file);
  for (const statement of program.body as unknown as Node[]) reader.read(statement);
  return reader;
}

/** `file#name` of every top-level declaration that no entry reaches, however many tests do. */
export function unreachedSymbols(files: ReadonlyMap<string, string>, entries: readonly string[]): string[] {
  const modules = new Map([...files].map(([file, source]) => [file, moduleOf(file, source)]));
  const reached = new Set<string>();
  const loaded = new Set<string>();
  const queue: [string, string][] = [];

  const load = (file: string): void => {
    const module = modules.get(file);
    if (module === undefined || loaded.has(file)) return;
    loaded.add(file);
    for (const name of module.atLoad) queue.push([file, name]);
    for (const specifier of importsOf(files.get(file)!))
      if (specifier.startsWith('.')) load(targetOf(file, specifier));
  };
  const reachExport = (file: string, name: string): void => {
    const module = modules.get(file);
    if (module === undefined) return;
    const names = name === ALL ? [...module.exported.keys()] : [name];
    for (const one of names) {
      const local = module.exported.get(one);
      if (local !== undefined) queue.push([file, local]);
    }
    if (name === ALL || !module.exported.has(name)) for (const star of module.stars) reachExport(star, name);
  };

  for (const entry of entries) {
    load(entry);
    reachExport(entry, ALL);
  }
  // What is loaded while the program runs: `await import(...)` takes all of a file.
  for (const [file, source] of files)
    if (loaded.has(file)) for (const target of dynamicTargets(file, source)) reachExport(target, ALL);
  while (queue.length > 0) {
    const [file, name] = queue.pop()!;
    if (reached.has(`${file}#${name}`)) continue;
    reached.add(`${file}#${name}`);
    for (const used of modules.get(file)!.uses.get(name) ?? []) {
      const [target, far] = used.split('#');
      if (far === undefined) queue.push([file, used]);
      else reachExport(target!, far);
    }
  }
  return [...modules].flatMap(([file, { declared }]) =>
    declared.map((name) => `${file}#${name}`).filter((symbol) => !reached.has(symbol)),
  );
}

function dynamicTargets(file: string, source: string): string[] {
  const targets: string[] = [];
  const visit = (value: unknown): void => {
    if (Array.isArray(value)) return value.forEach(visit);
    if (value === null || typeof value !== 'object') return;
    const node = value as Node;
    const literal = node.type === 'ImportExpression' ? (node.source as Node).value : undefined;
    if (typeof literal === 'string' && literal.startsWith('.')) targets.push(targetOf(file, literal));
    Object.values(node).forEach(visit);
  };
  visit(parseSync(file, source).program.body);
  return targets;
}
