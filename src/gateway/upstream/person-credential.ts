// The credential of the person who calls, in the headers of a request to the upstream, and the answers to a person without one.
import type { IncomingMessage } from 'node:http';
import type { Services } from '../../services.ts';
import { ACCOUNT_ID } from '../../people/account.ts';
import { scopesFor } from '../../credentials/obtain.ts';
import { credentialPageUrl } from '../../credentials/page-address.ts';
import {
  type CredentialInUse,
  type CredentialProblem,
  openPersonCredentials,
  type PersonCredentials,
  type StoredCredential,
} from '../../credentials/use.ts';
import type { CredentialSettings } from '../../settings/credentials.ts';
import type { Settings } from '../../settings/settings.ts';
import type { Upstream } from '../../settings/upstreams.ts';
import type { Caller } from '../authenticate.ts';
import type { AuthenticatedCall } from '../call.ts';
import {
  errorResponse,
  isRequest,
  type Message,
  SERVER_ERROR,
  toolErrorResponse,
} from '../json-rpc.ts';
import { isObject, membersOf } from '../../json-values.ts';
import { type OpenSession, outboundHeaders, STATELESS_SINCE } from './headers.ts';
import type { Proxy } from './proxy.ts';

/** How calls to one upstream get credentials of persons. Undefined members: the settings have none for it. */
export type PersonCredentialRules = {
  of(caller: Caller): Promise<CredentialInUse | CredentialProblem>;
  /** After the upstream answered 403 with this challenge. Returns whether the person can give more, and is asked for it. */
  lacks(caller: Caller, challenge: string): Promise<boolean>;
  renewed(caller: Caller, token: string): Promise<CredentialInUse | CredentialProblem>;
  /** Renews nothing. */
  stored(caller: Caller): Promise<StoredCredential | undefined>;
  /** Calls the listener when the person's credential changes, until the returned function is called. */
  onChange(caller: Caller, listener: () => void): () => void;
  /** Where this person connects the account. */
  addressFor(caller: Caller): string;
  kind: CredentialSettings['kind'];
  /** Lower case: the operator's headers that a person's request never has. */
  replaced: ReadonlySet<string>;
};

/** Undefined if the settings have no credential for the upstream. */
export async function openCredentialRules(
  settings: Settings,
  services: Services,
  upstream: Upstream,
): Promise<PersonCredentialRules | undefined> {
  const { credential } = upstream;
  if (!credential) return undefined;
  const credentials: PersonCredentials = await openPersonCredentials(settings, services, {
    ...upstream,
    credential,
  });
  return {
    of: ({ accountId }) => credentials.of(accountId),
    renewed: ({ accountId }, token) => credentials.renewed(accountId, token),
    async lacks({ accountId, level }, challenge) {
      const missing = insufficientScopes(challenge);
      if (!missing || credential.kind !== 'oauth') return false;
      const allowed = scopesFor(credential, settings.levels, level);
      return credentials.lacks(accountId, { missing: missing.scopes, allowed });
    },
    stored: ({ accountId }) => credentials.stored(accountId),
    onChange: ({ accountId }, listener) => credentials.onChange(accountId, listener),
    addressFor: ({ accountId }) =>
      credentialPageUrl(settings.authUrl, services.keys.forms, upstream.id, accountId),
    kind: credential.kind,
    replaced: new Set(['authorization', credential.header.name]),
  };
}

/** RFC 6750 section 3.1. Undefined if the challenge is about something else; without `scopes`, it names none. */
function insufficientScopes(challenge: string): { scopes: string[] | undefined } | undefined {
  if (!/\berror="?insufficient_scope\b/i.test(challenge)) return undefined;
  const [, scope] = /\bscope="([^"]*)"/i.exec(challenge) ?? [];
  return { scopes: scope?.split(' ').filter(Boolean) };
}

/** Machines, workloads and minted tokens have no person. */
export function isPerson({ minted, accountId }: Caller): boolean {
  return !minted && ACCOUNT_ID.test(accountId);
}

/** The caller as ids of sessions, events, states and tasks are bound: those of one credential are of no use with another. */
export function boundCaller(caller: Caller, personal: CredentialInUse | undefined): Caller {
  if (!personal) return caller;
  return { ...caller, accountId: `${caller.accountId} ${personal.epoch}` };
}

/** The operator's headers without those that a person's request never has, and the credential. */
export function withCredential(
  headers: Readonly<Record<string, string>>,
  { replaced }: PersonCredentialRules,
  { header }: CredentialInUse,
): Record<string, string> {
  const kept = Object.entries(headers).filter(([name]) => !replaced.has(name));
  return { ...Object.fromEntries(kept), [header.name]: header.value };
}

/** Returns the headers for the upstream: the client's that it may see, who calls, and the operator's credentials. */
export function attachCredentials(
  { callerHeaders: headersOf, credentials, ids, parameterHeaders, services, upstream }: Proxy,
  call: AuthenticatedCall,
  {
    req = call.ctx.req,
    messages,
    caller,
    personal,
    session,
  }: {
    req?: IncomingMessage;
    messages: readonly Message[];
    caller: Caller;
    personal: CredentialInUse | undefined;
    session?: OpenSession | undefined;
  },
): Record<string, string> | Promise<Record<string, string>> {
  const operators = upstream.headers;
  const attach = (ofCaller: Readonly<Record<string, string>>) =>
    outboundHeaders(
      { req, messages },
      {
        ids,
        parameterHeaders,
        caller,
        session,
        callerHeaders: ofCaller,
        credentials:
          credentials && personal ? withCredential(operators, credentials, personal) : operators,
        host: upstream.host,
        version: services.version,
      },
    );
  const signed = headersOf(call.caller);
  return signed instanceof Promise ? signed.then(attach) : attach(signed);
}

/** The state of a request that waited for the account, as bound for the caller. */
export const CONNECT_STATE = 'connect-account';

/** Without our own state and the answer to our own question, which are not the upstream's. */
export function withoutConnectState(message: Message, isOwn: (state: string) => boolean): Message {
  const { params } = message;
  const state = params?.['requestState'];
  if (!params || typeof state !== 'string' || !isOwn(state)) return message;
  const { requestState: _state, inputResponses: _responses, ...others } = params;
  return { ...message, params: others };
}

export const CONNECT_TOOL = 'connect_account';

export type Asked = {
  /** Of the upstream, as people know it. */
  service: string;
  address: string;
  kind: CredentialSettings['kind'];
  problem: CredentialProblem;
  /** The parameters of the app's `initialize`, if it has a session. */
  initialize: unknown;
  /** Of an elicitation, the same while the person is asked for the same. */
  elicitationId: string;
  /** The `requestState` that the app returns when it repeats the request. */
  state: string;
  /** What the caller may reach, as far as it is known. */
  knownTools: () => object[];
  /** Of the upstream, as far as it is known. */
  revision: string | undefined;
};

/** Answers to the requests of a person whose credential is missing. Empty for notifications only. */
export function answersWithoutCredential(asked: Asked, messages: readonly Message[]): object[] {
  return messages
    .filter(isRequest)
    .map((message) => elicitation(asked, message) ?? answer(asked, message));
}

const CLIENT_CAPABILITIES = 'io.modelcontextprotocol/clientCapabilities';
/** MCP 2025-11-25, URL mode of elicitation. */
const URL_ELICITATION_REQUIRED = -32_042;

/** Asks through the app, if it declares the URL mode of elicitation. Undefined for requests that are answered in another way. */
function elicitation(asked: Asked, { id, method, params }: Message): object | undefined {
  if (!('missing' in asked.problem)) return undefined;
  if (method !== 'tools/call' || membersOf(params)['name'] === CONNECT_TOOL) return undefined;
  const request = {
    mode: 'url',
    url: asked.address,
    message:
      asked.kind === 'exchange'
        ? `${asked.service} needs a new sign-in. Sign in again on this page.`
        : `${asked.service} needs your own account. Connect it on this page.`,
  };
  const inBody = membersOf(membersOf(params)['_meta'])[CLIENT_CAPABILITIES];
  if (takesUrls(inBody)) {
    const inputRequests = { account: { method: 'elicitation/create', params: request } };
    const result = { resultType: 'input_required', inputRequests, requestState: asked.state };
    return { jsonrpc: '2.0', id, result };
  }
  if (!takesUrls(membersOf(asked.initialize)['capabilities'])) return undefined;
  const elicitations = [{ ...request, elicitationId: asked.elicitationId }];
  return errorResponse(id, {
    code: URL_ELICITATION_REQUIRED,
    message: wordsFor(asked),
    data: { elicitations },
  });
}

function takesUrls(capabilities: unknown): boolean {
  return isObject(membersOf(membersOf(capabilities)['elicitation'])['url']);
}

function answer(asked: Asked, { id, method, params }: Message): object {
  const result = (members: object) => ({
    jsonrpc: '2.0',
    id,
    result: { resultType: 'complete', ...members },
  });
  const text = wordsFor(asked);
  switch (method) {
    case 'ping':
      return result({});
    case 'initialize':
      return result(initialized(asked, params));
    case 'server/discover':
      return discovered(asked, id);
    case 'tools/list': {
      const tools = asked.knownTools();
      return result({ tools: tools.length > 0 ? tools : [connectTool(asked)] });
    }
    case 'resources/list':
      return result({ resources: [] });
    case 'resources/templates/list':
      return result({ resourceTemplates: [] });
    case 'prompts/list':
      return result({ prompts: [] });
    case 'tools/call':
      return membersOf(params)['name'] === CONNECT_TOOL
        ? result({ content: [{ type: 'text', text }] })
        : toolErrorResponse(id, text);
    default:
      return errorResponse(id, {
        code: SERVER_ERROR,
        message: text,
        data: { error: 'credential_required', url: asked.address },
      });
  }
}

/** Without a session (MCP 2026-07-28), if the server is of that kind. The error makes apps try `initialize`. */
function discovered({ revision = '', service }: Asked, id: Message['id']): object {
  if (revision < STATELESS_SINCE)
    return errorResponse(id, { code: METHOD_NOT_FOUND, message: 'the method is not known' });
  const result = {
    resultType: 'complete',
    supportedVersions: [revision],
    capabilities: { tools: {} },
    serverInfo: { name: service, version: '1' },
    ttlMs: 0,
    cacheScope: 'private',
  };
  return { jsonrpc: '2.0', id, result };
}

const METHOD_NOT_FOUND = -32_601;
const LATEST_WITH_SESSIONS = '2025-11-25';
const REVISION = /^\d{4}-\d{2}-\d{2}$/;

function initialized({ service }: Asked, params: unknown): object {
  const { protocolVersion: asked } = membersOf(params);
  const isKnown =
    typeof asked === 'string' && REVISION.test(asked) && asked <= LATEST_WITH_SESSIONS;
  return {
    protocolVersion: isKnown ? asked : LATEST_WITH_SESSIONS,
    capabilities: { tools: { listChanged: true } },
    serverInfo: { name: service, version: '1' },
  };
}

function connectTool(asked: Asked): object {
  return {
    name: CONNECT_TOOL,
    title: `Connect ${asked.service}`,
    description: `Returns the address where the person connects their own account at ${asked.service}. Its tools are listed afterwards.`,
    inputSchema: { type: 'object', properties: {} },
    annotations: { readOnlyHint: true },
  };
}

/** An assistant reads it, and tells the person. */
export function wordsFor({ service, address, kind, problem }: Asked): string {
  if ('missing' in problem && kind === 'exchange')
    return `Nothing was done: ${service} acts with the account with which the person signs in, and needs a new sign-in. Ask the person to open ${address} and to sign in again there; then call again.`;
  if ('missing' in problem && problem.isScope)
    return `Nothing was done: ${service} needs more access than the person's account there has given. Ask the person to open ${address} and to allow it there; then call again.`;
  if ('missing' in problem)
    return `Nothing was done: ${service} needs the person's own account, which is not connected. Ask the person to open ${address} and to connect it there; then call again.`;
  if (problem.unavailable === 'other_provider')
    return `Nothing was done: ${service} acts with an account of another identity provider than the one where this person signed in. Only people who sign in there can use it.`;
  return problem.unavailable === 'not_set_up'
    ? `Nothing was done: the connection to ${service} is not set up right. An administrator has to mend it; the reason is in the log of this server.`
    : `Nothing was done: the sign-in service of ${service} does not answer now. Try again in a minute.`;
}
