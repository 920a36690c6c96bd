/** Entries up to which a look along the list is quicker than a hash, and a list smaller than a table. */
const LIST_MAX = 8;

/**
 * A Map for a handful of entries, of which a run makes hundreds and most stay empty: nothing is allocated before the first entry,
 * and the first few lie in one list. Order, and keys that are compared as by `===`, are a Map's. A loop over it sees what was
 * there when the loop began, whatever is added or deleted meanwhile.
 */
export class SmallMap<Key, Value> {
  /** Keys and values in turn; null while empty. */
  #list: unknown[] | null = null;
  /** All of it, once it has outgrown the list. */
  #table: Map<Key, Value> | null = null;

  get size(): number {
    return this.#table === null ? (this.#list === null ? 0 : this.#list.length >> 1) : this.#table.size;
  }

  get(key: Key): Value | undefined {
    if (this.#table !== null) return this.#table.get(key);
    const list = this.#list;
    if (list === null) return undefined;
    for (let at = 0; at < list.length; at += 2) if (list[at] === key) return list[at + 1] as Value;
    return undefined;
  }

  has(key: Key): boolean {
    return this.#table === null ? this.#indexOf(key) >= 0 : this.#table.has(key);
  }

  set(key: Key, value: Value): this {
    if (this.#table !== null) {
      this.#table.set(key, value);
      return this;
    }
    const at = this.#indexOf(key);
    if (at >= 0) this.#list![at + 1] = value;
    else if (this.#list === null) this.#list = [key, value];
    else if (this.#list.length < 2 * LIST_MAX) this.#list.push(key, value);
    else {
      this.#table = new Map(this.#entries());
      this.#table.set(key, value);
      this.#list = null;
    }
    return this;
  }

  delete(key: Key): boolean {
    if (this.#table !== null) return this.#table.delete(key);
    const at = this.#indexOf(key);
    if (at < 0) return false;
    const list = this.#list!;
    for (let next = at + 2; next < list.length; next++) list[next - 2] = list[next];
    list.length -= 2;
    return true;
  }

  clear(): void {
    this.#list = null;
    this.#table = null;
  }

  /** The key that has been there longest. */
  oldest(): Key | undefined {
    if (this.#table !== null) return this.#table.keys().next().value;
    return this.#list === null ? undefined : (this.#list[0] as Key | undefined);
  }

  keys(): Key[] {
    return this.#table === null ? (this.#every(0) as Key[]) : [...this.#table.keys()];
  }

  values(): Value[] {
    return this.#table === null ? (this.#every(1) as Value[]) : [...this.#table.values()];
  }

  [Symbol.iterator](): ArrayIterator<[Key, Value]> {
    return (this.#table === null ? this.#entries() : [...this.#table])[Symbol.iterator]();
  }

  #indexOf(key: Key): number {
    const list = this.#list;
    if (list === null) return -1;
    for (let at = 0; at < list.length; at += 2) if (list[at] === key) return at;
    return -1;
  }

  #every(from: 0 | 1): unknown[] {
    const found: unknown[] = [];
    const list = this.#list;
    if (list !== null) for (let at = from; at < list.length; at += 2) found.push(list[at]);
    return found;
  }

  #entries(): [Key, Value][] {
    const found: [Key, Value][] = [];
    const list = this.#list;
    if (list !== null)
      for (let at = 0; at < list.length; at += 2) found.push([list[at] as Key, list[at + 1] as Value]);
    return found;
  }
}
