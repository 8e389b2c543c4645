// Parts of the reports: tables and versions.
import { execFileSync } from 'node:child_process';
import { REDIS, requireProgram } from '../support/programs.ts';

export function redisVersion(): string {
  const [, version = '?'] =
    /v=(\S+)/.exec(execFileSync(requireProgram(REDIS), ['--version']).toString()) ?? [];
  return version;
}

/** Columns of numbers are aligned to the right, other columns to the left. */
export function textTable(head: string[], rows: string[][]): string {
  const { aligned } = align(head, rows);
  return aligned.map((cells) => `  ${cells.join('  ')}`.trimEnd()).join('\n');
}

export function markdownTable(head: string[], rows: string[][]): string {
  const { aligned, columns } = align(head, rows);
  const rule = columns.map(({ width, isNumber }) =>
    isNumber ? `${'-'.repeat(width - 1)}:` : '-'.repeat(width),
  );
  const [first = [], ...others] = aligned;
  return [first, rule, ...others].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

function align(head: string[], rows: string[][]) {
  const columns = head.map((title, column) => {
    const cells = rows.map((row) => row[column] ?? '');
    return {
      width: Math.max(title.length, ...cells.map(({ length }) => length)),
      isNumber: cells.every((cell) => /^-?[\d.,]*%?$/.test(cell)),
    };
  });
  const aligned = [head, ...rows].map((cells) =>
    columns.map(({ width, isNumber }, column) => {
      const cell = cells[column] ?? '';
      return isNumber ? cell.padStart(width) : cell.padEnd(width);
    }),
  );
  return { aligned, columns };
}
