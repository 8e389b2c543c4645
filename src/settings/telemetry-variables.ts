// The variables of OpenTelemetry: read one by one, in the forms that its specification has for them.
import type { Environment } from './environment.ts';
import type { SettingsIssue } from './issues.ts';
import { hidden } from './source.ts';

export type Parse<T> = (text: string) => T | undefined;
export type Read = <T>(
  names: readonly string[],
  expected: string,
  parse: Parse<T>,
) => T | undefined;

/** Reads the first of the variables that is set. What was given is never shown: half of it are secrets, and people mix them up. */
export function openReader(environment: Environment, issues: SettingsIssue[]): Read {
  return (names, expected, parse) => {
    const setting = names.find((name) => environment[name]);
    const text = setting && environment[setting]?.trim();
    if (!text) return undefined;
    const value = parse(text);
    if (value === undefined) issues.push({ setting, given: hidden(text), expected });
    return value;
  };
}

export function share(text: string): number | undefined {
  return /^(0?\.\d+|0|1(\.0+)?|0\.)$/.test(text) ? Number(text) : undefined;
}

export function wholeNumber(most: number): Parse<number> {
  return (text) => (/^[1-9]\d{0,8}$/.test(text) && Number(text) <= most ? Number(text) : undefined);
}

export function oneOf(known: string): Parse<string> {
  return (text) => (text === known ? text : undefined);
}

/** `a=1,b=2`, as W3C Baggage has it. */
export function pairs(text: string): Record<string, string> | undefined {
  try {
    const entries = text.split(',').map((pair): [string, string] => {
      const [, name = '', value = ''] = /^\s*([^=\s]+)\s*=\s*(.*?)\s*$/.exec(pair) ?? [];
      return [decodeURIComponent(name), decodeURIComponent(value)];
    });
    return entries.every(([name]) => name !== '') ? Object.fromEntries(entries) : undefined;
  } catch {
    return undefined;
  }
}

/** Only what may stand in a header (RFC 9110 section 5.5). */
export function headerPairs(text: string): Record<string, string> | undefined {
  const headers = pairs(text);
  const isHeader = ([name, value]: [string, string]) =>
    /^[\w!#$%&'*+.^`|~-]+$/.test(name) && /^[\x20-\x7e]*$/.test(value);
  return headers && Object.entries(headers).every(isHeader) ? headers : undefined;
}
