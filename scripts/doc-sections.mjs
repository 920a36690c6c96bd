// What the generators of pages share: a table as markdown, and a page whose parts between marks are made from the code.
//   npx tsx scripts/generate-X.mjs                 rewrites the parts between the marks
//   npx tsx scripts/generate-X.mjs --check [file]  ends with 1 when a part is stale
import { readFileSync, writeFileSync } from 'node:fs';

function row(cells) {
  return `| ${cells.join(' | ')} |`;
}

export function tableOf(head, rows) {
  return [row(head), row(head.map(() => '---')), ...rows.map(row)].join('\n');
}

/** Puts each text between its marks; ends the script when a mark is not there. */
function renew(page, path, sections) {
  return sections.reduce((whole, { begin, end, text }) => {
    const from = whole.indexOf(begin);
    const to = whole.indexOf(end);
    if (from < 0 || to < from) {
      console.error(`${path}: the marks of the generated part are missing`);
      process.exit(2);
    }
    return `${whole.slice(0, from)}${begin}\n\n${text}\n\n${whole.slice(to)}`;
  }, page);
}

/** Rewrites or checks the page that the command line names, as the head of this file says. */
export function rewriteSections(script, ownPage, sections) {
  const [flag, file] = process.argv.slice(2);
  const path = file ?? ownPage;
  const page = readFileSync(path, 'utf8');
  const fresh = renew(page, path, sections);
  if (flag !== '--check') writeFileSync(path, fresh);
  else if (page !== fresh) {
    console.error(`${path} is stale: run \`npx tsx scripts/${script}\``);
    process.exitCode = 1;
  }
}
