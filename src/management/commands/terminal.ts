// What the command line shows: plain text for people, JSON for programs.
import type { Access } from '../api/client.ts';

/** What every command gets. `findAccess` throws when the settings do not say where Gatehouse is. */
export type Terminal = {
  findAccess: () => Access;
  /** Shows a result: `text` of it to people, all of it as JSON to programs. */
  print: <T>(result: T, text: (result: T) => string) => void;
  /** Seconds since the epoch. */
  now: () => number;
};

/** Columns under headings, for a terminal. */
export function table(headings: string[], rows: string[][]): string {
  const lines = [headings, ...rows].map((cells) => cells.map(plain));
  const widths = headings.map((_, column) =>
    Math.max(...lines.map((cells) => cells[column]?.length ?? 0)),
  );
  return lines.map((cells) => line(cells, widths)).join('\n');
}

function line(cells: string[], widths: number[]): string {
  return cells
    .map((cell, column) => cell.padEnd(widths[column] ?? 0))
    .join('  ')
    .trimEnd();
}

const UNSEEN = /(?!\n)[\p{Cc}\p{Bidi_Control}\u2028\u2029]/gu;

/** Text of others without what moves a terminal's cursor or turns text round. */
export function plain(text: string): string {
  return text.replace(UNSEEN, '\uFFFD').replaceAll('\n', '\uFFFD');
}

/** The same JSON to every program, and nothing but text to a terminal. */
export function jsonText(value: unknown): string {
  const escaped = (character: string) =>
    `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
  return JSON.stringify(value, null, 2).replace(UNSEEN, escaped);
}

/** One word of a command that people paste, whoever chose it: brackets, quotes and the like mean something to shells. */
export function quoted(word: string): string {
  const text = plain(word);
  return /^[\w:/.-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

/** An ISO 8601 time to the minute. */
export function minute(time: string): string {
  return `${time.slice(0, 10)} ${time.slice(11, 16)} UTC`;
}
