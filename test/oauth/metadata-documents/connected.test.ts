import { expect } from 'chai';
import type { RequestListener } from 'node:http';
import { documentCopies } from '../../../src/oauth/engine/client-metadata-documents.ts';
import { StoreUnavailable } from '../../../src/store/store.ts';
import { connect, type Connection, obtainCode, redeem } from '../../support/connection.ts';
import { isConsentPage, describePage, openBrowser, requirePage } from '../../support/browser.ts';
import { advanceClock } from '../../support/clock.ts';
import { authorizeUrl, refresh, requestToken, type TokenResponse } from '../../support/oauth.ts';
import { untilReady } from '../../support/system.ts';
import { postToken } from '../../support/token-endpoints.ts';
import { answerWith, hangUp, publish } from './document-host.ts';
import { usePublishing } from './publishing.ts';

const DAY = 86_400;
const nowInSeconds = () => Date.now() / 1000;

const FAULTS: Record<string, RequestListener> = {
  'hangs up': hangUp,
  'responds 404': answerWith(404),
  'responds 410': answerWith(410),
  'responds 500': answerWith(500),
  'responds 429': answerWith(429),
  'publishes HTML': answerWith(200, { 'content-type': 'text/html' }, '<h1>Soon back</h1>'),
  redirects: answerWith(302, { location: 'https://elsewhere.example/client.json' }),
  'publishes invalid JSON': answerWith(200, {}, 'nothing'),
  'publishes a document with a secret': publish({ client_secret: 'x'.repeat(40) }),
  'publishes a document of another client': publish({ client_id: 'https://other.example/x' }),
  'publishes only unaccepted redirect URIs': publish({
    redirect_uris: ['https://elsewhere.example/callback'],
  }),
};

function refreshAgain({ server, client, refreshToken }: Connection): Promise<TokenResponse> {
  return refresh(server, client, refreshToken);
}

describe('connected clients and the host of their metadata document', () => {
  const publishing = usePublishing('sqlite');
  let connection: Connection;
  beforeEach(async () => {
    const { system, connector, newClient } = publishing();
    connection ??= await connect(system, connector, { as: { client: newClient() } });
  });

  for (const [fault, answer] of Object.entries(FAULTS)) {
    it(`CIM-07 a refresh succeeds without a fetch when the host ${fault}`, async () => {
      const { host } = publishing();
      host.answer = answer;
      const asked = host.requests.length;
      advanceClock(2 * DAY);
      const { status, body } = await refreshAgain(connection);
      expect(body.error).to.equal(undefined);
      expect(status).to.equal(200);
      connection = { ...connection, refreshToken: body.refresh_token };
      expect(host.requests).to.have.length(asked);
    });
  }

  it('a change of the document during consent does not affect the authorization', async () => {
    const { system, connector, host, newClient } = publishing();
    const client = newClient();
    const browser = openBrowser(system.origins);
    const { url, verifier } = authorizeUrl(connection.server, client, { resource: connector.link });
    const page = await browser.openConsent(url, 'ada');
    expect(isConsentPage(page), describePage(page)).to.equal(true);
    host.answer = publish({ redirect_uris: ['https://elsewhere.example/callback'] });
    advanceClock(400);
    const answer = await browser.submit(page, { decision: 'approve' });
    if (answer.kind === 'page') expect.fail(describePage(answer));
    const { server, link } = connection;
    const code = { link, server, client, callback: answer.url, verifier };
    expect((await redeem(code, { resource: link })).status).to.equal(200);
  });

  it('CIM-07 token requests of unknown clients cause no fetch', async () => {
    const { host, newClient } = publishing();
    const connections = host.connections();
    const stranger = newClient();
    for (const parameters of [
      { grant_type: 'refresh_token', refresh_token: 'x'.repeat(40) },
      { grant_type: 'authorization_code', code: 'x'.repeat(40) },
    ]) {
      const { status, body } = await requestToken(connection.server, stranger, parameters);
      expect([status, body.error]).to.deep.equal([400, 'invalid_client']);
    }
    expect(host.connections()).to.equal(connections);
  });

  it('a page explains what to do if the copy is lost during consent', async () => {
    const { system, store, connector, newClient } = publishing();
    const client = newClient();
    const browser = openBrowser(system.origins);
    const { url } = authorizeUrl(connection.server, client, { resource: connector.link });
    const page = await browser.openConsent(url, 'ada');
    await store.delete(`metadata-document:${client.id}`);
    advanceClock(120);
    const answer = requirePage(await browser.submit(page, { decision: 'approve' }));
    expect(answer.status).to.equal(400);
    expect(describePage(answer)).to.include('App not recognized');
  });
});

describe('Introspection of a token of a client whose metadata document is no longer known', () => {
  const id = 'figures-api';
  const secret = 'secret-of-the-figures-api-0123456789';
  const publishing = usePublishing('sqlite', undefined, {
    authorization: { introspectionClients: [{ id, secret }] },
  });

  it('says that the token is inactive, as the token endpoint refuses the client', async () => {
    const { system, store, connector, newClient } = publishing();
    const connection = await connect(system, connector, { as: { client: newClient() } });
    const { accessToken, refreshToken, client } = connection;
    const introspect = async (token: string | undefined) => {
      const as = { id, secret, method: 'client_secret_basic' } as const;
      const { status, text } = await postToken(`${system.auth}/oauth/introspect`, as, token);
      return [status, JSON.parse(text).active ?? text];
    };
    for (const token of [accessToken, refreshToken])
      expect(await introspect(token)).to.deep.equal([200, true]);
    await store.delete(`metadata-document:${client.id}`);
    advanceClock(400);
    for (const token of [accessToken, refreshToken])
      expect(await introspect(token)).to.deep.equal([200, false]);
    expect((await refreshAgain(connection)).body.error).to.equal('invalid_client');
  });
});

describe('connected clients with a metadata document while the store stalls', () => {
  const publishing = usePublishing('redis');

  /** Seconds since the copy was read: fresh, stale, and too old to use. */
  for (const since of [0, 70, 3700]) {
    it(`CIM-07 a refresh ${since} s after the last read returns 503, and a retry succeeds`, async () => {
      const { system, connector, newClient } = publishing();
      const connection = await connect(system, connector, { as: { client: newClient() } });
      advanceClock(since);
      system.signalStore('SIGSTOP');
      let stalled: TokenResponse;
      try {
        stalled = await refreshAgain(connection);
      } finally {
        system.signalStore('SIGCONT');
        await untilReady(system);
      }
      expect([stalled.status, stalled.body.error]).to.deep.equal([503, 'temporarily_unavailable']);
      expect(stalled.headers.get('retry-after')).to.match(/^\d+$/);
      expect(stalled.headers.get('cache-control')).to.equal('no-store');
      expect((await refreshAgain(connection)).status).to.equal(200);
    });
  }

  it('a copy is used for an hour without the store', async () => {
    const { system, store, host, newClient, visit } = publishing();
    const { id } = newClient();
    const copies = documentCopies(store, { unusedClient: DAY, usedClient: DAY }, nowInSeconds);
    await visit({ id, method: 'none', redirectUri: 'http://127.0.0.1:7071/callback' });
    expect(host.requests).to.include(new URL(id).pathname);
    const copy = await copies.find(id);
    expect(copy?.document.client_id).to.equal(id);
    system.signalStore('SIGSTOP');
    try {
      advanceClock(3500);
      expect(await copies.find(id)).to.deep.equal(copy);
      advanceClock(200);
      const failure = await copies.find(id).catch((error: unknown) => error);
      expect(failure).to.be.instanceOf(StoreUnavailable);
    } finally {
      system.signalStore('SIGCONT');
      await untilReady(system);
    }
  });

  it('a code exchange returns 503, and a retry succeeds', async () => {
    const { system, connector, newClient } = publishing();
    const code = await obtainCode(system, connector, { as: { client: newClient() } });
    system.signalStore('SIGSTOP');
    let stalled: TokenResponse;
    try {
      stalled = await redeem(code);
    } finally {
      system.signalStore('SIGCONT');
      await untilReady(system);
    }
    expect([stalled.status, stalled.body.error]).to.deep.equal([503, 'temporarily_unavailable']);
    expect((await redeem(code)).status).to.equal(200);
  });
});
