import type { Readable, Writable } from 'node:stream';
import type { CommandLineSettings, Environment } from '../../settings/environment.ts';
import type { ManagementClient } from '../api/client.ts';

/** Passed to every command. */
export type Terminal = {
  /** That of the process if absent. */
  environment?: Environment;
  /** The options of the command line that change settings. */
  settingsOptions: () => CommandLineSettings;
  /** Milliseconds, for doctor. */
  maxRedisLatency?: number;
  /** Throws SettingsError if the address or the key of the management API is not known. */
  openClient: () => ManagementClient;
  /** Prints the result as JSON with --json, otherwise `text(result)`. */
  print: <T>(result: T, text: (result: T) => string) => void;
  /** Prints a line of text, also with --json. */
  write: (text: string) => void;
  /** Standard output, for what is too long for a text. */
  output: Writable;
  /** Standard input, for commands that ask. */
  input?: Readable & { isTTY?: boolean };
  /** Standard error, for progress. */
  progress: Writable & { isTTY?: boolean };
  /** Sets the exit code of a command that does not fail. */
  exitWith: (code: number) => void;
  /** Seconds since the epoch. */
  now: () => number;
};

/** An error with an exit code of its own. */
export class CommandFailed extends Error {
  override name = 'CommandFailed';
  readonly exitCode: number;

  constructor(exitCode: number, cause: unknown) {
    super(cause instanceof Error ? cause.message : String(cause), { cause });
    this.exitCode = exitCode;
  }
}

/** Aligns cells in columns under headings. */
export function table(headings: string[], rows: string[][]): string {
  const lines = [headings, ...rows].map((cells) => cells.map(plain));
  const widths = headings.map((_, column) =>
    Math.max(...lines.map((cells) => cells[column]?.length ?? 0)),
  );
  return lines.map((cells) => line(cells, widths)).join('\n');
}

/** Lists labels and values in two aligned columns. */
export function details(values: Record<string, string>): string {
  const width = Math.max(...Object.keys(values).map(({ length }) => length)) + 2;
  return Object.entries(values)
    .map(([label, value]) => `  ${label.padEnd(width)}${plain(value)}`)
    .join('\n');
}

function line(cells: string[], widths: number[]): string {
  return cells
    .map((cell, column) => cell.padEnd(widths[column] ?? 0))
    .join('  ')
    .trimEnd();
}

const INVISIBLE = /(?!\n)[\p{Cc}\p{Bidi_Control}\u2028\u2029]/gu;

/** Replaces characters that could move the cursor or reverse text: names are untrusted input. */
export function plain(text: string): string {
  return text.replace(INVISIBLE, '\uFFFD').replaceAll('\n', '\uFFFD');
}

/** Serializes to JSON, with characters that could move the cursor escaped. */
export function jsonText(value: unknown): string {
  return escapedJson(JSON.stringify(value, null, 2));
}

/** The same JSON, which has no control characters but ends of lines, without other characters that could move the cursor. */
export function escapedJson(json: string): string {
  const escaped = (character: string) =>
    `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
  return json.replace(INVISIBLE, escaped);
}

/** Quotes a word for a shell, so that people can paste a command that contains untrusted input. */
export function quoted(word: string): string {
  const text = plain(word);
  return /^[\w:/.-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

/** Formats an ISO 8601 time to the minute, in the time zone of the terminal. `minutes` is its offset, east of UTC. */
export function minute(time: string, minutes?: number): string {
  return localTime(time, 'HH:MM', minutes);
}

/** As `minute`, to the second. */
export function second(time: string, minutes?: number): string {
  return localTime(time, 'HH:MM:SS', minutes);
}

function localTime(
  time: string,
  { length }: 'HH:MM' | 'HH:MM:SS',
  minutes = -new Date(time).getTimezoneOffset(),
): string {
  const local = new Date(Date.parse(time) + minutes * 60_000).toISOString();
  const distance = Math.abs(minutes);
  const parts = [Math.floor(distance / 60), distance % 60].map((part) =>
    String(part).padStart(2, '0'),
  );
  const offset = minutes === 0 ? 'UTC' : `${minutes < 0 ? '-' : '+'}${parts.join(':')}`;
  return `${local.slice(0, 10)} ${local.slice(11, 11 + length)} ${offset}`;
}
