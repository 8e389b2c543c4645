// Entity tags (RFC 9110 section 8.8.3), so that administrators who change one record at the same time do not overwrite each other's changes.
import { createHash } from 'node:crypto';

/** Returns a strong entity tag of the members that an administrator can change, in the order of their schema. */
export function etagOf(changeable: object): string {
  const digest = createHash('sha256').update(JSON.stringify(changeable)).digest('base64url');
  return `"${digest.slice(0, 22)}"`;
}
