// The MCP extensions for authorization that Gatehouse adds to what a server advertises (MCP 2026-07-28, `server/discover`).
import type { Settings } from '../settings/settings.ts';
import { isObject, membersOf } from '../json-values.ts';

export type Extensions = Readonly<Record<string, Record<string, never>>>;

export function authorizationExtensions({ authorization }: Settings): Extensions {
  return {
    'io.modelcontextprotocol/oauth-client-credentials': {},
    ...(authorization.trustedIssuers.some(({ workloads }) => workloads.length > 0)
      ? { 'io.modelcontextprotocol/auth/wif': {} }
      : {}),
    ...(authorization.trustedIssuers.some(({ clients }) => clients.length > 0)
      ? { 'io.modelcontextprotocol/enterprise-managed-authorization': {} }
      : {}),
  };
}

/**
 * Adds the extensions to a result of `server/discover`, and returns other results unchanged. What the server says about these extensions is
 * replaced, because it does not issue the tokens.
 */
export function withAuthorizationExtensions(
  extensions: Extensions,
  result: Record<string, unknown>,
): Record<string, unknown> {
  const { supportedVersions, capabilities } = result;
  if (!Array.isArray(supportedVersions) || !isObject(capabilities)) return result;
  const all = { ...membersOf(capabilities['extensions']), ...extensions };
  return { ...result, capabilities: { ...capabilities, extensions: all } };
}
