// Plays a recorded provider, and is as strict as it: with scopes, client authentication, PKCE and tokens.
import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { challengeOf } from '../support/oauth.ts';
import {
  approveAs,
  OPENID_CLIENT,
  type OpenIdProvider,
  startOpenIdProvider,
} from '../support/openid-provider.ts';
import type { Answer, Person, RecordedProvider, Refusal } from './providers/recorded-provider.ts';

/** Both methods that Gatehouse knows are registered, unless the recording says otherwise. */
const CLIENT_AUTHENTICATION = ['client_secret_basic', 'client_secret_post'];

export type PlayedProvider = {
  recorded: RecordedProvider;
  /** Each `host` or `host:port` of its addresses. */
  hosts: string[];
  port: number;
  /** Who works there, by subject. */
  people: Map<string, Person>;
  /** Who signs in next. Undefined: the sign-in is refused. */
  signInAs: (person: Person | undefined) => void;
  /** How it answers the next refreshes. */
  refuse: (refusal: Refusal | undefined) => void;
  /** Another of the recorded forms. */
  play: (form: Partial<RecordedProvider>) => void;
  logoutToken: OpenIdProvider['logoutToken'];
  stop: () => Promise<void>;
};

/** What a code or a token was issued for. */
type Issued = { subject: string; authorization: URLSearchParams };

export async function playProvider(recorded: RecordedProvider): Promise<PlayedProvider> {
  const { metadata } = recorded;
  const provider = await startOpenIdProvider({ metadata: () => metadata });
  const people = new Map<string, Person>();
  const issued = new Map<string, Issued>();
  let form = recorded;
  let next: Person | undefined;
  let refusal: Refusal | undefined;

  const issue = (to: Issued): string => {
    const token = randomUUID();
    issued.set(token, to);
    return token;
  };
  const personOf = ({ subject }: Issued): Person => {
    const person = people.get(subject);
    if (!person) throw new Error(`nobody is ${subject}`);
    return person;
  };

  function authorize({ url = '' }: IncomingMessage, res: ServerResponse): void {
    const request = new URL(url, metadata.issuer);
    const sent = request.searchParams;
    const { permittedScopes: permitted } = recorded;
    const refused = scopesIn(sent).filter((scope) => permitted && !permitted.includes(scope));
    if (refused.length > 0)
      return void res.writeHead(400).end(`<h1>invalid_scope: ${refused.join(', ')}</h1>`);
    const error = sent.get('prompt') === 'none' ? { error: 'login_required' } : undefined;
    const callback = approveAs(next?.subject ?? '', request);
    issued.set(String(callback.searchParams.get('code')), {
      subject: next?.subject ?? '',
      authorization: sent,
    });
    if (error ?? !next) {
      callback.searchParams.delete('code');
      for (const [name, value] of Object.entries(error ?? recorded.refusedSignIn))
        callback.searchParams.set(name, value);
    }
    if (metadata['authorization_response_iss_parameter_supported'] === true)
      callback.searchParams.set('iss', metadata.issuer);
    res.writeHead(302, { location: callback.href }).end();
  }

  async function answerToken(req: IncomingMessage): Promise<Answer> {
    const sent = new URLSearchParams(await text(req));
    if (!isAuthenticated(recorded, req, sent))
      return { status: 401, body: { error: 'invalid_client' } };
    const isRefresh = sent.get('grant_type') === 'refresh_token';
    const given = String(sent.get(isRefresh ? 'refresh_token' : 'code'));
    const grant = issued.get(given);
    if (!grant || (!isRefresh && !isVerified(grant, sent)))
      return { status: 400, body: { error: 'invalid_grant' } };
    if (isRefresh && refusal && refusal.token.status !== 200) return refusal.token;
    if (!isRefresh || form.refresh.rotates) issued.delete(given);
    const hasIdToken = !isRefresh || (form.refresh.hasIdToken && !refusal);
    const hasRefreshToken = isRefresh ? form.refresh.rotates : issuesRefreshToken(grant);
    const body = {
      access_token: issue(grant),
      token_type: 'Bearer',
      expires_in: 3600,
      scope: grant.authorization.get('scope'),
      ...(hasRefreshToken ? { refresh_token: issue(grant) } : {}),
      ...(hasIdToken ? { id_token: await idTokenFor(grant, isRefresh) } : {}),
    };
    return { status: 200, body };
  }

  function issuesRefreshToken({ authorization }: Issued): boolean {
    const { issuesRefreshToken: isIssued } = recorded;
    return isIssued ? isIssued(authorization) : scopesIn(authorization).includes('offline_access');
  }

  function idTokenFor(grant: Issued, isRefresh: boolean): Promise<string> {
    const nonce = isRefresh ? {} : { nonce: grant.authorization.get('nonce') };
    return provider.idToken({ sub: grant.subject, ...nonce, ...form.idToken(personOf(grant)) });
  }

  async function answerUserInfo({ headers }: IncomingMessage): Promise<Answer> {
    const grant = issued.get(headers.authorization?.replace('Bearer ', '') ?? '');
    if (!grant) return { status: 401, body: { error: 'invalid_token' } };
    const answer = (refusal?.userInfo ?? form.userInfo)(personOf(grant));
    return form.signsUserInfo
      ? { ...answer, jwt: await provider.idToken({ ...answer.body }) }
      : answer;
  }

  provider.setBehaviour({
    responses: {
      [pathOf(metadata.authorization_endpoint)]: authorize,
      [pathOf(metadata.token_endpoint)]: send(answerToken),
      [pathOf(metadata.userinfo_endpoint)]: send(answerUserInfo),
    },
  });
  return {
    recorded,
    hosts: hostsIn(metadata),
    port: provider.port,
    people,
    signInAs(person) {
      if (person) people.set(person.subject, person);
      next = person;
    },
    refuse(wanted) {
      refusal = wanted;
    },
    play(changes) {
      form = { ...recorded, ...changes };
    },
    logoutToken: provider.logoutToken,
    stop: provider.stop,
  };
}

function send(answer: (req: IncomingMessage) => Promise<Answer>) {
  return async (req: IncomingMessage, res: ServerResponse) => {
    const { status, body, jwt } = await answer(req);
    const headers = {
      'content-type': jwt === undefined ? 'application/json' : 'application/jwt',
      ...(status === 401 ? { 'www-authenticate': 'Bearer' } : {}),
    };
    res.writeHead(status, headers).end(jwt ?? JSON.stringify(body));
  };
}

function pathOf(address: string): string {
  return new URL(address).pathname;
}

function hostsIn(metadata: object): string[] {
  const addresses = Object.values(metadata).filter((value) => String(value).startsWith('https:'));
  return [...new Set(addresses.map((address) => new URL(String(address)).host))];
}

function scopesIn(authorization: URLSearchParams): string[] {
  return String(authorization.get('scope')).split(' ');
}

function isAuthenticated(
  { clientAuthentication = CLIENT_AUTHENTICATION }: RecordedProvider,
  { headers }: IncomingMessage,
  sent: URLSearchParams,
): boolean {
  const { clientId, clientSecret } = OPENID_CLIENT;
  const [, basic] = /^Basic (.*)$/.exec(headers.authorization ?? '') ?? [];
  if (basic !== undefined)
    return (
      clientAuthentication.includes('client_secret_basic') &&
      // RFC 6749 section 2.3.1.
      decodeURIComponent(Buffer.from(basic, 'base64').toString()) === `${clientId}:${clientSecret}`
    );
  return (
    clientAuthentication.includes('client_secret_post') &&
    sent.get('client_id') === clientId &&
    sent.get('client_secret') === clientSecret
  );
}

/** RFC 7636 section 4.6: a verifier belongs to a challenge. */
function isVerified({ authorization }: Issued, sent: URLSearchParams): boolean {
  const challenge = authorization.get('code_challenge');
  const verifier = sent.get('code_verifier');
  return verifier === null ? challenge === null : challengeOf(verifier) === challenge;
}
