import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { assert, expect } from 'chai';
import * as oidc from 'openid-client';
import {
  type Browser,
  openBrowser,
  requireExternalRedirect,
  requirePage,
} from '../../support/browser.ts';
import { advanceClock, restoreClock } from '../../support/clock.ts';
import { freePorts } from '../../support/free-ports.ts';
import {
  CLIENT,
  type Place,
  type RunningIdp,
  discoverIdp,
  redeem,
  signInRequest,
  startIdp,
} from './running-idp.ts';

const BASIC = `Basic ${btoa(`${CLIENT.id}:${encodeURIComponent(CLIENT.secret)}`)}`;

async function refusalOf(attempt: Promise<unknown>): Promise<string> {
  const error = await attempt.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (error instanceof oidc.WWWAuthenticateChallengeError) {
    return String(error.cause[0]?.parameters['error']);
  }
  assert(error instanceof oidc.ResponseBodyError, `not refused: ${String(error)}`);
  return error.error;
}

async function makePlace(): Promise<Place> {
  const [port = 0] = await freePorts(1);
  return { port, dataDir: await mkdtemp(join(tmpdir(), 'development-idp-')) };
}

describe('refusals of the development identity provider', () => {
  let place: Place;
  let running: RunningIdp;
  let idp: oidc.Configuration;
  let browser: Browser;

  before(async () => {
    place = await makePlace();
    running = await startIdp(place);
    idp = await discoverIdp(running.url);
  });
  beforeEach(() => {
    browser = openBrowser([running.url]);
  });
  afterEach(restoreClock);
  after(async () => {
    await running.stop();
    await rm(place.dataDir, { recursive: true });
  });

  async function signIn() {
    const request = await signInRequest(idp);
    const page = requirePage(await browser.visit(request.url));
    return {
      request,
      callback: requireExternalRedirect(await browser.submit(page, { person: 'ada' })),
    };
  }

  /** The parameters that differ from a good request; null for one that is left out. */
  const REFUSED: [what: string, changes: Record<string, string | null>, page: string][] = [
    ['an unregistered redirect URI', { redirect_uri: 'https://evil.example/' }, 'redirect_uri'],
    [
      'the redirect URI of another port',
      { redirect_uri: 'http://127.0.0.1:4001/sign-in/callback' },
      'redirect_uri did not match',
    ],
    ['no redirect URI', { redirect_uri: null }, 'redirect_uri'],
    ['an unknown client', { client_id: 'somebody' }, 'client is invalid'],
  ];
  for (const [what, changes, text] of REFUSED)
    it(`a request with ${what} is refused with a page`, async () => {
      const { status, html } = requirePage(await browser.visit(await changedRequest(changes)));
      expect(status).to.equal(400);
      expect(html).to.include(text);
    });

  async function changedRequest(changes: Record<string, string | null>): Promise<URL> {
    const { url } = await signInRequest(idp);
    for (const [name, value] of Object.entries(changes))
      if (value === null) url.searchParams.delete(name);
      else url.searchParams.set(name, value);
    return url;
  }

  it('a request without a PKCE challenge, or with a plain one, is refused', async () => {
    const without = { code_challenge: null, code_challenge_method: null };
    for (const changes of [without, { code_challenge_method: 'plain' }]) {
      const url = await changedRequest(changes);
      const { searchParams } = requireExternalRedirect(await browser.visit(url));
      expect(searchParams.get('error')).to.equal('invalid_request');
    }
  });

  it('a request with another response type than code is refused', async () => {
    for (const response_type of ['id_token', 'code id_token', 'token', 'none']) {
      const request = await signInRequest(idp, { response_type });
      const { hash, searchParams } = requireExternalRedirect(await browser.visit(request.url));
      const answer = hash ? new URLSearchParams(hash.slice(1)) : searchParams;
      expect(answer.get('error'), response_type).to.equal('unsupported_response_type');
    }
  });

  it('a verifier that does not match the PKCE challenge is refused', async () => {
    const { request, callback } = await signIn();
    const checks = { ...request.checks, pkceCodeVerifier: oidc.randomPKCECodeVerifier() };
    expect(await refusalOf(redeem(idp, callback, { ...request, checks }))).to.equal(
      'invalid_grant',
    );
  });

  it('a wrong client secret is refused, and the code remains valid', async () => {
    const { request, callback } = await signIn();
    for (const method of [oidc.ClientSecretBasic, oidc.ClientSecretPost]) {
      const impostor = await discoverIdp(running.url, method('not the secret'));
      expect(await refusalOf(redeem(impostor, callback, request))).to.equal('invalid_client');
    }
    expect((await redeem(idp, callback, request)).sub).to.equal('ada');
  });

  it('a token request without client authentication is refused', async () => {
    const { request, callback } = await signIn();
    const anonymous = await discoverIdp(running.url, oidc.None());
    expect(await refusalOf(redeem(anonymous, callback, request))).to.equal('invalid_client');
  });

  it('all but one of twenty concurrent requests with one code are refused', async () => {
    const { request, callback } = await signIn();
    const attempts = Array.from({ length: 20 }, () => redeem(idp, callback, request));
    const results = await Promise.allSettled(attempts);
    expect(results.filter(({ status }) => status === 'fulfilled')).to.have.length(1);
    for (const result of results) {
      if (result.status === 'rejected')
        expect(result.reason).to.include({ error: 'invalid_grant' });
    }
  });

  it('a code older than a minute is refused', async () => {
    const { request, callback } = await signIn();
    advanceClock(61);
    expect(await refusalOf(redeem(idp, callback, request))).to.equal('invalid_grant');
  });
});

describe('the development identity provider as a process', () => {
  let place: Place;

  beforeEach(async () => {
    place = await makePlace();
  });

  afterEach(() => rm(place.dataDir, { recursive: true }));

  it('the provider does not start in production', async () => {
    const refused = await startIdp({ ...place, production: true }).catch((error: unknown) => error);
    assert(refused instanceof Error);
    expect(refused.message).to.include('does not run in production');
  });

  it('the engine logs no warning during a sign-in, and the session survives SIGKILL', async () => {
    const browser = openBrowser([`http://127.0.0.1:${place.port}`]);
    const first = await startProcess(place);
    const idp = await discoverIdp(first.url);
    const request = await signInRequest(idp);
    const people = requirePage(await browser.visit(request.url));
    const callback = requireExternalRedirect(await browser.submit(people, { person: 'ada' }));
    await redeem(idp, callback, request);
    for (const [name, value] of [
      ['redirect_uri', 'https://evil.example/'],
      ['resource', 'urn:a'],
    ] as const) {
      await browser.visit((await signInRequest(idp, { [name]: value })).url);
    }
    const foreign = await fetch(String(idp.serverMetadata().token_endpoint), {
      method: 'POST',
      headers: { origin: 'https://evil.example', authorization: BASIC },
      body: new URLSearchParams({ grant_type: 'authorization_code' }),
    });
    expect(foreign.status).to.equal(400);
    expect(foreign.headers.has('access-control-allow-origin')).to.equal(false);
    await first.kill();
    expect(first.output())
      .to.include('listening')
      .and.not.match(/oidc-provider/i);

    const second = await startIdp(place);
    const again = await signInRequest(idp);
    const remembered = requireExternalRedirect(await browser.visit(again.url));
    expect((await redeem(idp, remembered, again)).sub).to.equal('ada');
    await second.stop();
  });
});

async function startProcess({ port, dataDir }: Place) {
  const program = join(import.meta.dirname, 'idp-process.ts');
  const child = spawn(process.execPath, [program, String(port), dataDir]);
  let output = '';
  const collect = (chunk: Buffer) => void (output += chunk.toString());
  child.stderr.on('data', collect);
  child.stdout.on('data', collect);
  const ended = once(child, 'close');
  while (!output.includes('listening')) {
    await Promise.race([once(child.stdout, 'data'), ended]);
    if (child.exitCode !== null) throw new Error(`the process ended: ${output}`);
  }
  return {
    url: `http://127.0.0.1:${port}`,
    output: () => output,
    async kill() {
      child.kill('SIGKILL');
      await ended;
    },
  };
}
