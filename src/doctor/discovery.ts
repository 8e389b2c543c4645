import { METADATA_PATH } from '../oauth/metadata.ts';
import { METADATA_PREFIX } from '../gateway/metadata.ts';
import type { Deployment } from './deployment.ts';
import { describeResponse, jsonObject, NoResponseError } from './http-client.ts';
import { type Finding, findingAbout, type Findings } from './report.ts';

const OPENID_CONFIGURATION = '/.well-known/openid-configuration';
const FORWARD_PATHS =
  'configure the proxy to forward every path of this name to Gatehouse unchanged, including /.well-known/';

/** Checks every address at which clients look for metadata (RFC 9728, RFC 8414, OpenID Connect Discovery). */
export async function checkDiscovery(deployment: Deployment): Promise<Findings> {
  const link = await deployment.findLink();
  return Promise.all([
    checkServerMetadata(deployment),
    checkResourceMetadata(deployment, deployment.resourceUrl, METADATA_PREFIX),
    ...fallbackUrls(deployment, link).map((url) => checkFallback(deployment, url)),
    link
      ? checkLink(deployment, link)
      : findingAbout('discovery', 'connect link').unknown(
          'no connect link was checked: give one with --link, or create one and set the management key',
        ),
  ]);
}

async function checkLink(deployment: Deployment, link: string): Promise<Findings> {
  const { origin, pathname } = new URL(link);
  if (origin !== deployment.resourceUrl)
    return findingAbout('issuer', link).problem({
      what: `the connect link does not start with ${deployment.resourceUrl}`,
      why: 'tokens are valid only for the link as the settings write it',
      remedy: 'check resourceUrl (GATEHOUSE_RESOURCE_URL), and share links created with it',
    });
  return Promise.all([
    checkResourceMetadata(deployment, link, METADATA_PREFIX + pathname),
    checkChallenge(deployment, link),
  ]);
}

/** Clients try these after the first address, or because they follow an older revision of MCP. */
function fallbackUrls({ authUrl, resourceUrl }: Deployment, link?: string): string[] {
  const path = link && URL.parse(link)?.pathname;
  const ofResourceServer = [METADATA_PATH, OPENID_CONFIGURATION].map((name) => resourceUrl + name);
  return [
    authUrl + OPENID_CONFIGURATION,
    ...(authUrl === resourceUrl ? [] : ofResourceServer),
    ...(path ? ofResourceServer.map((url) => url + path) : []),
  ];
}

async function checkServerMetadata({ send, authUrl }: Deployment): Promise<Findings> {
  const url = authUrl + METADATA_PATH;
  const { document, missing } = await fetchDocument(send, url);
  if (!document) return missing;
  const foreign = Object.entries(document).filter(
    ([name, value]) => /_(endpoint|uri)$/.test(name) && !String(value).startsWith(`${authUrl}/`),
  );
  return [
    findingAbout('discovery', url).ok('the authorization server metadata is available'),
    compareMember(url, 'issuer', document.issuer, authUrl),
    foreign.map(([name, value]) =>
      findingAbout('issuer', url).problem({
        what: `${name} is ${String(value)}, at another address`,
        why: 'apps send codes and tokens there',
        remedy:
          'make sure that no proxy rewrites the document, and check authUrl (GATEHOUSE_AUTH_URL)',
      }),
    ),
    foreign.length === 0 && (await checkKeys(send, String(document.jwks_uri))),
  ];
}

async function checkResourceMetadata(
  { send, authUrl, resourceUrl }: Deployment,
  resource: string,
  path: string,
): Promise<Findings> {
  const url = resourceUrl + path;
  const { document, missing } = await fetchDocument(send, url);
  if (!document) return missing;
  const [server] = [document.authorization_servers].flat();
  return [
    findingAbout('discovery', url).ok('the protected resource metadata is available'),
    compareMember(url, 'authorization_servers', server, authUrl),
    compareMember(url, 'resource', document.resource, resource),
  ];
}

function compareMember(url: string, member: string, found: unknown, expected: string): Finding {
  const finding = findingAbout('issuer', url);
  if (found === expected) return finding.ok(`${member} is ${expected}`);
  return finding.problem({
    what: `${member} is ${String(found)} and should be ${expected}`,
    why: 'apps compare the two exactly, and stop if they differ',
    remedy:
      'give every process the same authUrl and resourceUrl, restart those that have others, and make sure that no proxy rewrites documents',
  });
}

/** RFC 8414 section 3.2. */
async function fetchDocument(
  send: Deployment['send'],
  url: string,
): Promise<{ document?: Record<string, unknown>; missing?: Finding }> {
  const missing = (what: string) => ({
    missing: findingAbout('discovery', url).problem({
      what,
      why: 'apps read it before anything else',
      remedy: FORWARD_PATHS,
    }),
  });
  try {
    const response = await send(url, { headers: { 'mcp-protocol-version': '2025-11-25' } });
    const isJson = /^application\/json\b/.test(response.header('content-type') ?? '');
    const document = jsonObject(response);
    if (response.status === 200 && isJson && document) return { document };
    return missing(`expected a JSON document, but the response is ${describeResponse(response)}`);
  } catch (error) {
    if (error instanceof NoResponseError)
      return missing(`the document cannot be read: ${error.message}`);
    throw error;
  }
}

async function checkKeys(send: Deployment['send'], url: string): Promise<Findings> {
  const { document, missing } = await fetchDocument(send, url);
  if (!document) return missing;
  const finding = findingAbout('discovery', url);
  const { keys } = document;
  if (Array.isArray(keys) && keys.length > 0)
    return finding.ok(`${keys.length} keys are published`);
  return finding.problem({
    what: 'no key is published',
    why: 'tokens cannot be verified',
    remedy:
      'make sure that no proxy changes or caches the document; see also `gatehouse keys list`',
  });
}

/** Clients take any response other than a plain 404 for a document, and stop. */
async function checkFallback({ send, authUrl }: Deployment, url: string): Promise<Findings> {
  const finding = findingAbout('discovery', url);
  const response = await send(url);
  if (response.status === 200 && jsonObject(response)?.issuer === authUrl)
    return finding.ok('the address returns the metadata');
  if (response.status === 404) return finding.ok('the address returns 404, as apps expect');
  return finding.problem({
    what: `the response is ${describeResponse(response)} instead of a plain 404`,
    why: 'apps that try this address first take the response for a document, or give up',
    remedy: FORWARD_PATHS,
  });
}

/** RFC 9728 section 5.1. */
async function checkChallenge({ send, resourceUrl }: Deployment, link: string): Promise<Findings> {
  const finding = findingAbout('challenge', link);
  const response = await send(link, {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' }),
  });
  const expected = `resource_metadata="${resourceUrl}${METADATA_PREFIX}${new URL(link).pathname}"`;
  const challenge = response.header('www-authenticate') ?? '';
  if (response.status === 401 && challenge.includes(expected))
    return finding.ok('the response to a call without a token says where to sign in');
  const isInactive = response.status === 404 || response.status === 410;
  return finding.problem({
    what: isInactive
      ? `the connect link is not active (${response.status})`
      : `the response to a call without a token is ${response.status}, and WWW-Authenticate is ${challenge || 'missing'}`,
    why: 'apps learn from this response where to sign in',
    remedy: isInactive
      ? 'check a link that `gatehouse connector list` shows as active'
      : 'configure the proxy to forward calls, and to keep status 401 and WWW-Authenticate',
  });
}
