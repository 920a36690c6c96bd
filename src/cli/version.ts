import { readFileSync } from 'node:fs';
import { packageFile } from '../node/package-file.ts';

/** The version in package.json. */
export function version(): string {
  const text = readFileSync(packageFile('package.json'), 'utf8');
  return (JSON.parse(text) as { version: string }).version;
}
