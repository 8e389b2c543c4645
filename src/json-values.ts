export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Returns an empty object for anything that is not an object. */
export function membersOf(value: unknown): Record<string, unknown> {
  return isObject(value) ? value : {};
}

/** An integer that a double cannot represent, which only `JSON.stringify` understands. */
export type BigInteger = { readonly rawJSON: string };

/** Part of ECMAScript 2026, and missing in TypeScript's types. */
export const { isRawJSON, rawJSON } = JSON as typeof JSON & {
  rawJSON: (text: string) => BigInteger;
  isRawJSON: (value: unknown) => value is BigInteger;
};
