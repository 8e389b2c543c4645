// Verifies the JWT of a workload, up to its signature.
import { createHash } from 'node:crypto';
import { decodeJwt, decodeProtectedHeader } from 'jose';
import type { TrustedIssuer } from '../settings/identity-provider-schema.ts';
import type { Settings } from '../settings/settings.ts';
import { type CheckSignature, signatureOfWorkload } from './issuer-keys.ts';
import {
  type Check,
  claimChecks,
  type Claims,
  type ExpectedWorkload,
  type Header,
  HEADER_CHECKS,
  WorkloadRefused,
} from './validation.ts';

export type IssuerOfWorkloads = { issuer: TrustedIssuer; check: CheckSignature };

/** Call once: the result caches the issuers' keys. `now` is in seconds. */
export function issuersOfWorkloads(
  { authorization, forwardProxy }: Settings,
  now: () => number,
): IssuerOfWorkloads[] {
  return authorization.trustedIssuers
    .filter(({ workloads }) => workloads.length > 0)
    .map((issuer) => ({ issuer, check: signatureOfWorkload(issuer, { forwardProxy, now }) }));
}

/** Rejects with WorkloadRefused and KeysUnavailable. Nothing is fetched for a JWT that its text alone excludes. */
export async function verifyWorkload(
  issuers: readonly IssuerOfWorkloads[],
  assertion: string,
  expected: Omit<ExpectedWorkload, 'issuer'>,
): Promise<{ issuer: TrustedIssuer; claims: Claims }> {
  const { header, claims } = decodeWorkload(assertion);
  require(HEADER_CHECKS, header);
  const trusted = issuers.find(({ issuer }) => issuer.issuer === claims['iss']);
  if (!trusted) throw new WorkloadRefused('unknown_issuer');
  const { issuer, check } = trusted;
  require(claimChecks({ ...expected, issuer }), claims);
  const unsigned = await check(assertion);
  if (unsigned) throw new WorkloadRefused(unsigned);
  return { issuer, claims };
}

export function decodeWorkload(assertion: string): { header: Header; claims: Claims } {
  try {
    return { header: decodeProtectedHeader(assertion), claims: decodeJwt(assertion) };
  } catch {
    throw new WorkloadRefused('malformed');
  }
}

function require<Of>(checks: readonly Check<Of>[], jwt: Of): void {
  const failed = checks.find(({ isPassed }) => !isPassed(jwt));
  if (failed) throw new WorkloadRefused(failed.reason);
}

/** The key of the store for a JWT that may be used once: platforms without `jti` issue the same text once. */
export function usedAssertionKey(
  { issuer }: TrustedIssuer,
  { jti }: Claims,
  assertion: string,
): string {
  const isNamed = typeof jti === 'string' && jti !== '';
  const id = isNamed ? jti : createHash('sha256').update(assertion).digest('base64url');
  return `assertion:${issuer}\n${id}`;
}
