// What production is, and what it refuses: everything that is for development only (RFC 9700 section 2.6).
import { valueAt, type Path } from './document.ts';
import type { Environment } from './environment.ts';
import { providersIn } from './identity-provider.ts';
import { hosts } from './listeners.ts';
import { isLoopback, isLoopbackUrl } from './loopback.ts';
import type { SettingsIssue } from './issues.ts';
import type { SettingsFile, UpstreamSettings } from './schema.ts';
import { issueAt, settingName, type Source } from './source.ts';

/** Why this is production, in words: NODE_ENV says so, or other computers can reach it. Undefined in development. */
export function productionReason(
  source: Source,
  file: Partial<SettingsFile>,
  environment: Environment,
): string | undefined {
  if (environment['NODE_ENV'] === 'production') return 'NODE_ENV is production';
  const addresses = [
    { path: ['authUrl'], isPublic: isPublic(file.authUrl) },
    { path: ['resourceUrl'], isPublic: isPublic(file.resourceUrl) },
    { path: ['developmentIdp', 'url'], isPublic: isPublic(file.developmentIdp?.url) },
    ...hosts(file).map(({ addressPath, address }) => ({
      path: addressPath,
      isPublic: !isLoopback(address.host),
    })),
  ];
  const found = addresses.find(({ isPublic }) => isPublic);
  return found && `${settingName(source, found.path)} is not on this computer only`;
}

function isPublic(url: string | undefined): boolean {
  return url !== undefined && !isLoopbackUrl(url);
}

/** `reason` is why this is production. */
export function checkProduction(
  source: Source,
  file: Partial<SettingsFile>,
  reason: string,
): SettingsIssue[] {
  const { authUrl, resourceUrl, managementUrl } = file;
  const isDevelopmentIdpGiven = valueAt(source.document, ['developmentIdp']) !== undefined;
  const https = 'an https address';
  const upstream = file.resourceServer?.upstream;
  const httpsUpstream =
    'an https address (or resourceServer.upstream.privateNetwork: true where nobody can listen)';
  const refusals: [boolean, Path, string][] = [
    [isPlain(authUrl), ['authUrl'], https],
    [isPlain(resourceUrl), ['resourceUrl'], https],
    [isPlain(managementUrl) && isManagementReachable(file), ['managementUrl'], https],
    ...providersIn(file).map(([path, { issuer }]): [boolean, Path, string] => [
      isPlain(issuer),
      [...path, 'issuer'],
      https,
    ]),
    ...(file.authorization?.trustedIssuers ?? []).flatMap(({ issuer, jwksUri }, n) => {
      const path = ['authorization', 'trustedIssuers', n];
      return [
        [isPlain(issuer), [...path, 'issuer'], https],
        [isPlain(jwksUri), [...path, 'jwksUri'], https],
      ] satisfies [boolean, Path, string][];
    }),
    [isOpenUpstream(upstream), ['resourceServer', 'upstream', 'url'], httpsUpstream],
    [isDevelopmentIdpGiven, ['developmentIdp'], 'nothing here, and identityProvider instead'],
  ];
  return refusals
    .filter(([isRefused]) => isRefused)
    .map(([, path, expected]) => issueAt(source, path, `${expected}, ${inProduction(reason)}`));
}

/** By its address, or past it by its listener: the key would cross the network in the open. */
function isManagementReachable(file: Partial<SettingsFile>): boolean {
  const host = hosts(file).find(({ name }) => name === 'management');
  return isPublic(file.managementUrl) || (host !== undefined && !isLoopback(host.address.host));
}

/** What passes between us and it could be read and changed on the way. */
function isOpenUpstream(upstream: UpstreamSettings | undefined): boolean {
  return isPlain(upstream?.url) && isPublic(upstream?.url) && !upstream?.privateNetwork;
}

export function inProduction(reason: string): string {
  return `because this is production (${reason})`;
}

function isPlain(url: string | undefined): boolean {
  return url !== undefined && new URL(url).protocol === 'http:';
}
