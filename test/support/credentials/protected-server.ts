// An MCP server with an authorization server of its own, whose every answer a test can replace. It approves at once, rotates refresh tokens, and
// ends the family of a refresh token that is used again (RFC 9700 section 4.14.2).
import { createHash, randomUUID } from 'node:crypto';
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type ServerResponse,
} from 'node:http';
import { listenOnLoopback } from '../loopback-server.ts';

type Family = {
  id: string;
  user: string;
  scopes: string[];
  current: string;
  access: string;
  isEnded: boolean;
};

/** Carries a key too, maybe with `Key ` before it. */
export const KEY_HEADER = 'x-notes-key';

export type TokenAnswer = { status?: number; type?: string; body: string };

export type ProtectedServer = {
  /** Of the MCP endpoint. */
  url: string;
  origin: string;
  /** Lifetime of access tokens in seconds, as answered and as enforced by `expire`. */
  expiresIn: number | undefined;
  /** Replaces the answers of the token endpoint, in order; undefined gives the ordinary answer. */
  tokenAnswers: (TokenAnswer | 'hang up' | undefined)[];
  /** Called with each rotation, before its answer is sent. */
  onRotation: () => void;
  /** Runs after a refresh, before its answer is sent, with the new refresh token. */
  beforeAnswer: ((refreshToken: string) => Promise<void>) | undefined;
  /** Runs before the answer to a code is sent. */
  beforeCodeAnswer: (() => Promise<void>) | undefined;
  /** Further members of the answer to a code; undefined ones are left out. */
  codeMembers: Record<string, unknown>;
  /** Further members of the answer to a refresh. */
  refreshMembers: Record<string, unknown>;
  /** Replaces the answer to a valid token. */
  answer: ((token: string) => TokenAnswer) | undefined;
  /** The scopes that it grants of those that are asked for; undefined grants `tools`. */
  grants: ((asked: string[]) => string[]) | undefined;
  /** Scopes that calls need; without them, the answer is 403. */
  needs: string[];
  /** Who signs in at the service next. */
  user: string;
  /** What was posted to the token endpoint. */
  tokenRequests: URLSearchParams[];
  /** Queries of the authorization endpoint. */
  authorizations: URLSearchParams[];
  revoked: string[];
  /** What was posted to the revocation endpoint. */
  revocations: URLSearchParams[];
  /** The bearer tokens of MCP requests, with the answered status. */
  calls: {
    token: string | undefined;
    status: number;
    method: string;
    headers: IncomingHttpHeaders;
  }[];
  /** Takes a key as it takes access tokens. Returns it. */
  acceptKey(key: string): string;
  /** Invalidates the access tokens, not the refresh tokens. */
  expire(): void;
  /** Whether a family was ended because a refresh token was used again. */
  hasReplay: boolean;
  /** Replace members of the authorization server's metadata, and of those of the MCP server. */
  metadata: Record<string, unknown>;
  resourceMetadata: Record<string, unknown>;
  /** Of the way back to the client, beside `code` and `state`. */
  callbackMembers: Record<string, string>;
  /** Paths that are redirected, and where. */
  redirects: Record<string, string>;
  refusesRegistration: 'hang up' | undefined;
  registrationStatus: number;
  /** What was sent to register a client. Each has an id of its own. */
  registrations: Record<string, unknown>[];
  /** Further members of the answer to a registration. */
  registrationMembers: Record<string, unknown>;
  /** Of the answer to a revocation. */
  revocationStatus: number;
  /** Of the answer to the revocation of any token, as if it were none. */
  revocationError: string | undefined;
  /** Answers 400 to later revisions, in the handshake and in headers. */
  latestRevision: string | undefined;
  /** Speaks MCP 2026-07-28, without sessions. */
  isStateless: boolean;
  /** Answers `initialize` with an event stream, from work that ends with its connection. Until it is done, and without the session id in its headers, other requests get 400. */
  opensByStream: boolean;
  /** Lists tools without a token. */
  answersAnybody: boolean;
  /** What is listed with a token; by default, one tool. */
  tools: (token: string) => object[];
  /** Answers 401 to every token. */
  refusesAll: boolean;
  /** Answers 403 with words of its own to a valid token. */
  refusal: ((token: string) => string) | undefined;
  /** Open streams of sessions (GET). */
  streams: Set<ServerResponse>;
  close(): Promise<void>;
};

export const WHOAMI_TOOL = { name: 'whoami', inputSchema: { type: 'object' } };

const OPENING_MS = 200;
const SESSION = 'opened-by-stream';

export async function startProtectedServer(): Promise<ProtectedServer> {
  const families = new Map<string, Family>();
  const codes = new Map<string, { user: string; challenge: string; asked: string[] }>();
  const valid = new Set<string>();
  let isOpened = false;
  const { origin, stop } = await listenOnLoopback(
    createServer((req, res) => void respond(req, res)),
  );
  const state: ProtectedServer = {
    url: `${origin}/mcp`,
    origin,
    expiresIn: 3600,
    tokenAnswers: [],
    onRotation: () => undefined,
    beforeAnswer: undefined,
    beforeCodeAnswer: undefined,
    codeMembers: {},
    refreshMembers: {},
    answer: undefined,
    grants: undefined,
    needs: [],
    user: 'ada',
    tokenRequests: [],
    authorizations: [],
    revoked: [],
    revocations: [],
    calls: [],
    acceptKey(key) {
      valid.add(key);
      return key;
    },
    expire: () => valid.clear(),
    hasReplay: false,
    metadata: {},
    resourceMetadata: {},
    callbackMembers: {},
    redirects: {},
    refusesRegistration: undefined,
    registrationStatus: 201,
    registrations: [],
    registrationMembers: {},
    revocationStatus: 200,
    revocationError: undefined,
    latestRevision: undefined,
    isStateless: false,
    opensByStream: false,
    answersAnybody: false,
    tools: () => [WHOAMI_TOOL],
    refusesAll: false,
    refusal: undefined,
    streams: new Set(),
    close: stop,
  };

  const issue = (family: Family) => {
    valid.delete(family.access);
    family.access = `at-${family.user}-${randomUUID()}`;
    family.current = `rt-${randomUUID()}`;
    valid.add(family.access);
    families.set(family.current, family);
    return {
      access_token: family.access,
      refresh_token: family.current,
      token_type: 'bearer',
      scope: family.scopes.join(' '),
      ...(state.expiresIn === undefined ? {} : { expires_in: state.expiresIn }),
    };
  };

  const json = (res: ServerResponse, body: unknown, status = 200, headers = {}) =>
    res
      .writeHead(status, { 'content-type': 'application/json', ...headers })
      .end(JSON.stringify(body));

  const refresh = (res: ServerResponse, token: string) => {
    const family = families.get(token);
    if (!family || family.isEnded) return json(res, { error: 'invalid_grant' }, 400);
    if (family.current !== token) {
      state.hasReplay = true;
      family.isEnded = true;
      valid.delete(family.access);
      return json(res, { error: 'invalid_grant' }, 400);
    }
    const rotated = { ...issue(family), ...state.refreshMembers };
    state.onRotation();
    const before = state.beforeAnswer?.(rotated.refresh_token);
    if (before) return void before.then(() => json(res, rotated));
    return json(res, rotated);
  };

  const exchange = (res: ServerResponse, form: URLSearchParams) => {
    const code = codes.get(form.get('code') ?? '');
    codes.delete(form.get('code') ?? '');
    const verifier = form.get('code_verifier') ?? '';
    const challenge = createHash('sha256').update(verifier).digest('base64url');
    if (!code || code.challenge !== challenge) return json(res, { error: 'invalid_grant' }, 400);
    const family = {
      id: randomUUID(),
      user: code.user,
      scopes: state.grants?.(code.asked) ?? ['tools'],
      current: '',
      access: '',
      isEnded: false,
    };
    const answer = { ...issue(family), ...state.codeMembers };
    const before = state.beforeCodeAnswer?.();
    if (before) return void before.then(() => json(res, answer));
    return json(res, answer);
  };

  const answerToken = (res: ServerResponse, form: URLSearchParams) => {
    state.tokenRequests.push(form);
    const scripted = state.tokenAnswers.shift();
    if (scripted === 'hang up') return res.destroy();
    if (scripted) {
      const { status = 200, type = 'application/json', body } = scripted;
      return res.writeHead(status, { 'content-type': type }).end(body);
    }
    return form.get('grant_type') === 'refresh_token'
      ? refresh(res, form.get('refresh_token') ?? '')
      : exchange(res, form);
  };

  const answerCall = (res: ServerResponse, req: IncomingMessage, body: string) => {
    const { id, method = '', params } = JSON.parse(body || '{}');
    const [, bearer] = /^Bearer (.+)$/.exec(req.headers.authorization ?? '') ?? [];
    const [, token = bearer] = /^(?:Key )?(.+)$/.exec(String(req.headers[KEY_HEADER] ?? '')) ?? [];
    const isValid = token !== undefined && valid.has(token) && !state.refusesAll;
    state.calls.push({ token, status: isValid ? 200 : 401, method, headers: req.headers });
    const isOpen = state.answersAnybody && ['tools/list', 'server/discover'].includes(method);
    if (!isValid && !isOpen) {
      const place = `${origin}/.well-known/oauth-protected-resource/mcp`;
      return json(res, { error: 'invalid_token' }, 401, {
        'www-authenticate': `Bearer resource_metadata="${place}"`,
      });
    }
    const revision = params?.protocolVersion ?? req.headers['mcp-protocol-version'] ?? '';
    if (state.latestRevision !== undefined && revision > state.latestRevision)
      return json(res, { error: 'Bad Request: unsupported protocol version' }, 400);
    const granted = [...families.values()].find(({ access }) => access === token)?.scopes ?? [];
    if (method === 'tools/call' && state.needs.some((scope) => !granted.includes(scope)))
      return json(res, { error: 'insufficient_scope' }, 403, {
        'www-authenticate': `Bearer error="insufficient_scope", scope="${state.needs.join(' ')}"`,
      });
    if (state.refusal && token !== undefined) return json(res, state.refusal(token), 403);
    if (state.answer && token !== undefined) {
      const { status = 200, type = 'application/json', body: text } = state.answer(token);
      return res.writeHead(status, { 'content-type': type }).end(text);
    }
    if (req.method === 'GET') {
      state.streams.add(res);
      res.once('close', () => state.streams.delete(res));
      return res.writeHead(200, { 'content-type': 'text/event-stream' }).write(':\n\n');
    }
    if (id === undefined) return res.writeHead(202).end();
    const user = /^at-(\w+)-/.exec(token ?? '')?.[1];
    const results: Record<string, object> = {
      initialize: {
        protocolVersion: params?.protocolVersion ?? '2025-06-18',
        capabilities: { tools: {} },
        serverInfo: { name: 'protected', version: '1' },
      },
      'tools/list': { tools: state.tools(token ?? '') },
      'tools/call': { content: [{ type: 'text', text: user }] },
    };
    if (state.opensByStream && method === 'initialize') {
      isOpened = false;
      const work = setTimeout(() => {
        isOpened = true;
        res.end(`data: ${JSON.stringify({ jsonrpc: '2.0', id, result: results[method] })}\n\n`);
      }, OPENING_MS);
      res.once('close', () => clearTimeout(work));
      const headers = { 'content-type': 'text/event-stream', 'mcp-session-id': SESSION };
      return res.writeHead(200, headers).write(':\n\n');
    }
    const isInSession = isOpened && req.headers['mcp-session-id'] === SESSION;
    if (state.opensByStream && !isInSession) return json(res, { error: 'no session' }, 400);
    if (state.isStateless) {
      const result = { resultType: 'complete', ttlMs: 0, cacheScope: 'private' };
      results['server/discover'] = {
        supportedVersions: ['2026-07-28'],
        capabilities: { tools: {} },
        serverInfo: { name: 'protected', version: '1' },
      };
      return json(res, { jsonrpc: '2.0', id, result: { ...result, ...results[method] } });
    }
    return json(res, { jsonrpc: '2.0', id, result: results[method] ?? {} });
  };

  async function respond(req: IncomingMessage, res: ServerResponse) {
    const { pathname, searchParams } = new URL(req.url ?? '/', origin);
    let body = '';
    for await (const chunk of req) body += String(chunk);
    const form = new URLSearchParams(body);
    const elsewhere = state.redirects[pathname];
    if (elsewhere) return res.writeHead(307, { location: elsewhere }).end();
    switch (pathname) {
      case '/.well-known/oauth-protected-resource/mcp':
        return json(res, {
          resource: state.url,
          authorization_servers: [origin],
          ...state.resourceMetadata,
        });
      case '/.well-known/oauth-authorization-server':
        return json(res, {
          issuer: origin,
          authorization_endpoint: `${origin}/authorize`,
          token_endpoint: `${origin}/token`,
          registration_endpoint: `${origin}/register`,
          revocation_endpoint: `${origin}/revoke`,
          code_challenge_methods_supported: ['S256'],
          token_endpoint_auth_methods_supported: ['none', 'client_secret_post'],
          ...state.metadata,
        });
      case '/register':
        if (state.refusesRegistration) return res.destroy();
        state.registrations.push(JSON.parse(body));
        return json(
          res,
          {
            ...JSON.parse(body),
            client_id: `registered-${state.registrations.length}`,
            ...state.registrationMembers,
          },
          state.registrationStatus,
        );
      case '/authorize': {
        state.authorizations.push(searchParams);
        const code = randomUUID();
        codes.set(code, {
          user: state.user,
          challenge: searchParams.get('code_challenge') ?? '',
          asked: (searchParams.get('scope') ?? '').split(' ').filter(Boolean),
        });
        const back = new URL(searchParams.get('redirect_uri') ?? '');
        back.searchParams.set('code', code);
        back.searchParams.set('state', searchParams.get('state') ?? '');
        for (const [name, value] of Object.entries(state.callbackMembers))
          back.searchParams.set(name, value);
        return res.writeHead(302, { location: back.href }).end();
      }
      case '/token':
        return answerToken(res, form);
      case '/revoke':
        state.revocations.push(form);
        if (state.revocationError) return json(res, { error: state.revocationError }, 400);
        if (state.revocationStatus === 200) state.revoked.push(form.get('token') ?? '');
        return res.writeHead(state.revocationStatus).end();
      case '/mcp':
        return answerCall(res, req, body);
      default:
        return res.writeHead(404).end();
    }
  }
  return state;
}
