export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Returns an empty object for anything that is not an object. */
export function membersOf(value: unknown): Record<string, unknown> {
  return isObject(value) ? value : {};
}
