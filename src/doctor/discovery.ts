// Every address at which clients look for documents (RFC 9728, RFC 8414, OpenID Connect Discovery), and whether all of them agree.
import { METADATA_PATH } from '../authorization-server/metadata.ts';
import { METADATA_PREFIX } from '../resource-server/metadata.ts';
import { type Answer, jsonOf, kindOf, NoAnswer } from './ask.ts';
import type { Deployment } from './deployment.ts';
import { type Finding, wordsOf } from './finding.ts';

const OPENID = '/.well-known/openid-configuration';
const ROUTE =
  'have the proxy pass every path of this name to Gatehouse unchanged, /.well-known/ included';

export async function discoveryFindings(deployment: Deployment): Promise<Finding[]> {
  const link = await deployment.findLink();
  const all = await Promise.all([
    serverMetadata(deployment),
    resourceMetadata(deployment, deployment.resourceUrl, METADATA_PREFIX),
    ...fallbacks(deployment, link).map((url) => nothingElseAt(deployment, url)),
    ...(link ? linkFindings(deployment, link) : [noLink()]),
  ]);
  return all.flat();
}

function noLink(): Finding[] {
  return [
    wordsOf('discovery', 'connect link').unknown(
      'no connect link was tried: give one with --link, or make one and give the management key',
    ),
  ];
}

function linkFindings(deployment: Deployment, link: string): Promise<Finding[]>[] {
  const { origin, pathname } = new URL(link);
  if (origin !== deployment.resourceUrl)
    return [
      Promise.resolve([
        wordsOf('issuer', link).problem({
          what: `the connect link does not start with ${deployment.resourceUrl}`,
          why: 'a token is good for the link as the settings write it and for nothing else',
          remedy: 'check resourceUrl (GATEHOUSE_RESOURCE_URL), and hand out links made with it',
        }),
      ]),
    ];
  return [
    resourceMetadata(deployment, link, METADATA_PREFIX + pathname),
    challengeAt(deployment, link),
  ];
}

/** Where clients look when the first address has nothing, or when they follow an older revision of MCP. */
function fallbacks({ authUrl, resourceUrl }: Deployment, link?: string): string[] {
  const path = link ? URL.parse(link)?.pathname : undefined;
  const suffixed = path ? [resourceUrl + METADATA_PATH + path, resourceUrl + OPENID + path] : [];
  const own = authUrl === resourceUrl ? [] : [resourceUrl + METADATA_PATH, resourceUrl + OPENID];
  return [authUrl + OPENID, ...own, ...suffixed];
}

async function serverMetadata({ ask, authUrl }: Deployment): Promise<Finding[]> {
  const url = authUrl + METADATA_PATH;
  const answer = await documentAt(ask, url);
  if ('check' in answer) return [answer];
  const document = jsonOf(answer) ?? {};
  const strays = Object.entries(document).filter(
    ([name, value]) => /_(endpoint|uri)$/.test(name) && !String(value).startsWith(`${authUrl}/`),
  );
  return [
    wordsOf('discovery', url).ok('the metadata of the authorization server is there'),
    sameIssuer(url, document.issuer, authUrl, 'issuer'),
    ...strays.map(([name, value]) => strayAddress(url, name, value)),
    ...(strays.length > 0 ? [] : await keyFindings(ask, String(document.jwks_uri))),
  ];
}

function strayAddress(url: string, name: string, value: unknown): Finding {
  return wordsOf('issuer', url).problem({
    what: `${name} is ${String(value)}, at another address`,
    why: 'apps send codes and tokens there',
    remedy: 'let no proxy rewrite the document, and check authUrl (GATEHOUSE_AUTH_URL)',
  });
}

async function resourceMetadata(
  { ask, authUrl, resourceUrl }: Deployment,
  resource: string,
  path: string,
): Promise<Finding[]> {
  const url = resourceUrl + path;
  const answer = await documentAt(ask, url);
  if ('check' in answer) return [answer];
  const document = jsonOf(answer) ?? {};
  const servers = [document.authorization_servers].flat();
  return [
    wordsOf('discovery', url).ok('the metadata of the resource is there'),
    sameIssuer(url, servers[0], authUrl, 'authorization_servers'),
    sameIssuer(url, document.resource, resource, 'resource'),
  ];
}

function sameIssuer(url: string, found: unknown, expected: string, member: string): Finding {
  const words = wordsOf('issuer', url);
  if (found === expected) return words.ok(`${member} is ${expected}`);
  return words.problem({
    what: `${member} is ${String(found)} and should be ${expected}`,
    why: 'apps compare the two byte for byte and stop when they differ',
    remedy:
      'give every process the same authUrl and resourceUrl, restart those that have others, and let no proxy rewrite documents',
  });
}

/** RFC 8414 section 3.2. The problem, when there is no document. */
async function documentAt(ask: Deployment['ask'], url: string): Promise<Answer | Finding> {
  const words = wordsOf('discovery', url);
  const trouble = (what: string) =>
    words.problem({ what, why: 'apps read this before anything else', remedy: ROUTE });
  try {
    const answer = await ask(url, { headers: { 'mcp-protocol-version': '2025-11-25' } });
    const isJson = /^application\/json\b/.test(answer.header('content-type') ?? '');
    if (answer.status === 200 && isJson && jsonOf(answer)) return answer;
    return trouble(`there is no document, but ${kindOf(answer)}`);
  } catch (error) {
    if (error instanceof NoAnswer) return trouble(`there is no document: ${error.message}`);
    throw error;
  }
}

async function keyFindings(ask: Deployment['ask'], url: string): Promise<Finding[]> {
  const answer = await documentAt(ask, url);
  if ('check' in answer) return [answer];
  const words = wordsOf('discovery', url);
  const keys = jsonOf(answer)?.keys;
  if (Array.isArray(keys) && keys.length > 0)
    return [words.ok(`${keys.length} keys are published`)];
  return [
    words.problem({
      what: 'no key is published',
      why: 'nobody can verify a token',
      remedy: 'let no proxy change or keep the document; see `gatehouse keys list`',
    }),
  ];
}

/** A page or a redirect in place of a plain "not found" is taken for a document, and clients stop. */
async function nothingElseAt({ ask, authUrl }: Deployment, url: string): Promise<Finding[]> {
  const words = wordsOf('discovery', url);
  const answer = await ask(url);
  const isOurs = answer.status === 200 && jsonOf(answer)?.issuer === authUrl;
  if (isOurs || answer.status === 404)
    return [words.ok('an address that older apps try says no as it should')];
  return [
    words.problem({
      what: `${kindOf(answer)} in place of a plain 404`,
      why: 'apps that try this address first take the answer for a document, or give up',
      remedy: ROUTE,
    }),
  ];
}

/** RFC 9728 section 5.1. */
async function challengeAt({ ask, resourceUrl }: Deployment, link: string): Promise<Finding[]> {
  const words = wordsOf('challenge', link);
  const answer = await ask(link, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' }),
  });
  const expected = `resource_metadata="${resourceUrl}${METADATA_PREFIX}${new URL(link).pathname}"`;
  const challenge = answer.header('www-authenticate') ?? '';
  if (answer.status === 401 && challenge.includes(expected))
    return [words.ok('a call without a token is told where to sign in')];
  const isOver = answer.status === 404 || answer.status === 410;
  return [
    words.problem({
      what: isOver
        ? `the connect link is not good (${answer.status})`
        : `a call without a token gets ${answer.status}, and WWW-Authenticate is ${challenge || 'missing'}`,
      why: 'apps find out from this answer where to sign in',
      remedy: isOver
        ? 'try a link that `gatehouse connector list` shows as active'
        : 'have the proxy pass calls on and leave status 401 and WWW-Authenticate alone',
    }),
  ];
}
