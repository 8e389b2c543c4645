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
  const isNumber = numberColumns(head, rows);
  const widths = head.map((title, column) =>
    Math.max(title.length, ...rows.map((row) => (row[column] ?? '').length)),
  );
  const lines = [head, ...rows].map((cells) =>
    widths.map((width, column) => {
      const cell = cells[column] ?? '';
      return isNumber[column] ? cell.padStart(width) : cell.padEnd(width);
    }),
  );
  return lines.map((cells) => `  ${cells.join('  ')}`.trimEnd()).join('\n');
}

export function markdownTable(head: string[], rows: string[][]): string {
  const rule = numberColumns(head, rows).map((isNumber) => (isNumber ? '---:' : '---'));
  return [head, rule, ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

function numberColumns(head: string[], rows: string[][]): boolean[] {
  return head.map((_, column) => rows.every((row) => /^-?[\d.,]*%?$/.test(row[column] ?? '')));
}
