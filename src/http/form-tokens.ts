import { createHmac, type KeyObject } from 'node:crypto';
import { constantTimeEqual } from '../constant-time.ts';
import { HttpError } from './errors.ts';

/** The first key signs, every key verifies. */
export type FormKeys = readonly [KeyObject, ...KeyObject[]];

/** Returns a token that only a page with the same `context` contains. The context names at least the kind of page and the session. */
export function createFormToken([key]: FormKeys, context: string): string {
  return createHmac('sha256', key).update(context).digest('base64url');
}

/** Returns the key that signed the token. Throws 403 if the token is for another context. */
export function requireFormToken(keys: FormKeys, context: string, token = ''): KeyObject {
  const key = keys.find((candidate) =>
    constantTimeEqual(token, createFormToken([candidate], context)),
  );
  if (key) return key;
  throw new HttpError(403, 'forbidden', 'the form does not belong to this session');
}
