// A GitHub server whose responses tests control. Its sign-in page is a redirect.
import { createServer, type IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';
import { calculatePKCECodeChallenge } from 'openid-client';
import { listenOnLoopback } from './loopback-server.ts';

type GithubResponse = { status?: number; body?: unknown };

export type GithubBehaviour = {
  /** Overrides of the normal response, by path without the query. */
  responses?: Record<string, GithubResponse>;
  user?: object;
  emails?: { email: string; primary: boolean; verified: boolean }[];
  organizations?: string[];
};

export type Github = {
  issuer: string;
  setBehaviour: (behaviour: GithubBehaviour) => void;
  /** Signs the person in; returns the URL of the callback. */
  approve: (authorization: URL) => URL;
  /** The requested paths, with the query. */
  requests: string[];
  exchanges: URLSearchParams[];
  stop: () => Promise<void>;
};

export const GITHUB_CLIENT = { clientId: 'Iv1.test', clientSecret: 'the-secret-of-the-oauth-app' };
const TOKEN = 'gho_canary-of-the-tests';
const USER = { id: 583_231, login: 'octocat', name: 'Ada Lovelace', email: 'public@example.org' };
const EMAILS = [
  { email: 'octocat@users.example.org', primary: false, verified: true },
  { email: 'ada@example.com', primary: true, verified: true },
];

/** `port`: a port to reuse after a restart. */
export async function startGithub(port = 0): Promise<Github> {
  const codes = new Map<string, URLSearchParams>();
  const requests: string[] = [];
  const exchanges: URLSearchParams[] = [];
  let behaviour: GithubBehaviour = {};

  /** GitHub reports errors with status 200, too. */
  async function exchange(sent: URLSearchParams): Promise<GithubResponse> {
    exchanges.push(sent);
    const asked = codes.get(sent.get('code') ?? '');
    codes.delete(sent.get('code') ?? '');
    const challenge = await calculatePKCECodeChallenge(sent.get('code_verifier') ?? '');
    const isRight =
      asked?.get('code_challenge') === challenge &&
      asked.get('redirect_uri') === sent.get('redirect_uri');
    if (sent.get('client_secret') !== GITHUB_CLIENT.clientSecret)
      return { body: { error: 'incorrect_client_credentials', error_description: 'no' } };
    if (!isRight) return { body: { error: 'bad_verification_code', error_description: 'no' } };
    return { body: { access_token: TOKEN, token_type: 'bearer', scope: 'read:user,user:email' } };
  }

  function api(path: string, query: URLSearchParams, req: IncomingMessage): GithubResponse {
    if (path === '/login/oauth/authorize') return { body: 'the page for signing in' };
    if (req.headers.authorization !== `Bearer ${TOKEN}` || !req.headers['user-agent'])
      return { status: 401 };
    if (path === '/api/v3/user') return { body: { ...USER, ...behaviour.user } };
    if (path === '/api/v3/user/emails') return { body: behaviour.emails ?? EMAILS };
    if (path !== '/api/v3/user/orgs') return { status: 404 };
    const size = Number(query.get('per_page'));
    const start = (Number(query.get('page')) - 1) * size;
    const found = (behaviour.organizations ?? []).slice(start, start + size);
    return { body: found.map((login, n) => ({ login, id: start + n + 1 })) };
  }

  const server = createServer(async (req, res) => {
    const url = new URL(req.url ?? '/', 'http://github');
    requests.push(url.pathname + url.search);
    const sent = new URLSearchParams(await text(req));
    const answer =
      behaviour.responses?.[url.pathname] ??
      (url.pathname === '/login/oauth/access_token'
        ? await exchange(sent)
        : api(url.pathname, url.searchParams, req));
    res.writeHead(answer.status ?? 200, { 'content-type': 'application/json; charset=utf-8' });
    res.end(JSON.stringify(answer.body ?? {}));
  });
  const { origin, stop } = await listenOnLoopback(server, port);
  return {
    issuer: origin,
    requests,
    exchanges,
    setBehaviour: (next) => {
      behaviour = next;
    },
    approve({ searchParams }) {
      const code = `code-${codes.size}-${searchParams.get('state')?.slice(-8)}`;
      codes.set(code, searchParams);
      const callback = new URL(searchParams.get('redirect_uri') ?? '');
      callback.search = String(
        new URLSearchParams({ code, state: searchParams.get('state') ?? '' }),
      );
      return callback;
    },
    stop,
  };
}
