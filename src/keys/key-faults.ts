// Whether a signature could not be checked because of the keys: they are away, too slow, or something else was answered (RFC 7517).
import { errors } from 'jose';

/** `error` of a verification with fetched keys: a fault that passes, and nothing about what was to be verified. */
export function isAboutKeys(error: unknown): boolean {
  return (
    !(error instanceof errors.JOSEError) ||
    error.code === errors.JOSEError.code ||
    error instanceof errors.JWKSTimeout ||
    error instanceof errors.JWKSInvalid
  );
}
