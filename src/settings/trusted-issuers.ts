// How the keys of a trusted issuer are fetched: checked at the start, because nobody sees it fail at a token request.
import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { resolve } from 'node:path';
import { isLoopback } from './addresses.ts';
import type { TrustedIssuer } from './identity-provider-schema.ts';
import type { SettingsIssue } from './issues.ts';
import type { SettingsFile } from './schema.ts';
import { shownPath } from './secrets.ts';
import { errorCode, issueAt, type Path, pathName, type Source } from './source.ts';

/** What the fetch would refuse anyway. */
export function checkPublishedKeys(
  source: Source,
  path: Path,
  { issuer, jwksUri, jwks, caFile, tokenFile, privateNetwork, workloads }: TrustedIssuer,
): SettingsIssue[] {
  const address = jwksUri === undefined ? 'issuer' : 'jwksUri';
  const { protocol, hostname } = new URL(jwksUri ?? issuer);
  const isHere = isLoopback(hostname);
  const isNumber = isIP(hostname.replace(/^\[|\]$/g, '')) !== 0;
  const refusals: [boolean, string, string][] = [
    ...Object.entries({ caFile, tokenFile, privateNetwork: privateNetwork || undefined }).map(
      ([name, value]): [boolean, string, string] => [
        value !== undefined && jwks !== undefined,
        name,
        'no value with jwks, because nothing is fetched',
      ],
    ),
    [
      workloads.length > 0 && !jwks && isNumber && !isHere && !privateNetwork,
      address,
      `an address with a public host name (or ${pathName([...path, 'privateNetwork'])}: true in your own network)`,
    ],
    [
      tokenFile !== undefined && protocol === 'http:' && !isHere,
      address,
      'an https address, because the token in tokenFile is sent to it',
    ],
  ];
  return refusals
    .filter(([isRefused]) => isRefused)
    .map(([, name, expected]) => issueAt(source, [...path, name], expected));
}

/** For processes that fetch the keys. */
export function checkIssuerFiles(
  source: Source,
  path: Path,
  { caFile, tokenFile }: TrustedIssuer,
): SettingsIssue[] {
  const check = (
    name: string,
    file: string | undefined,
    expected: string,
    read: (content: string) => unknown,
  ) => {
    if (file === undefined) return [];
    try {
      read(readFileSync(resolve(source.folder, file), 'utf8'));
      return [];
    } catch (cause) {
      const code = errorCode(cause);
      const why = /^E[A-Z]+$/.test(code) ? ` (${code})` : '';
      return [issueAt(source, [...path, name], expected + why, shownPath(file))];
    }
  };
  return [
    ...check(
      'caFile',
      caFile,
      'a readable file with certificates (PEM)',
      (content) => new X509Certificate(content),
    ),
    ...check('tokenFile', tokenFile, 'a readable file', () => undefined),
  ];
}

/** The settings with paths that do not depend on the folder of the process. */
export function withIssuerFiles(
  { folder }: Source,
  authorization: SettingsFile['authorization'],
): SettingsFile['authorization'] {
  const resolved = (file: string | undefined) => file && resolve(folder, file);
  return {
    ...authorization,
    trustedIssuers: authorization.trustedIssuers.map(({ caFile, tokenFile, ...issuer }) => ({
      ...issuer,
      ...(caFile === undefined ? {} : { caFile: resolved(caFile) }),
      ...(tokenFile === undefined ? {} : { tokenFile: resolved(tokenFile) }),
    })),
  };
}
