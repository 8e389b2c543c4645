import { expect } from 'chai';
import type { RequestListener } from 'node:http';
import { startGatehouse } from '../../../src/server.ts';
import { loadSettings } from '../../../src/settings/load.ts';
import { isSignInPage, describePage, requirePage, type Step } from '../../support/browser.ts';
import { advanceClock } from '../../support/clock.ts';
import { connect } from '../../support/connection.ts';
import { askForDevice, DEVICE_CODE, poll } from '../../support/device.ts';
import { refresh } from '../../support/oauth.ts';
import { createDeployment } from '../../support/system.ts';
import { answerWith, DOMAIN, hangUp, publish, startDocumentHost } from './document-host.ts';
import { usePublishing } from './publishing.ts';

const HOUR = 3600;
const DAY = 24 * HOUR;

function expectSignIn(step: Step): void {
  const page = requirePage(step);
  expect(isSignInPage(page), describePage(page)).to.equal(true);
}

function expectUnreadable(step: Step): void {
  const page = requirePage(step);
  expect(page.status, describePage(page)).to.equal(400);
  expect(page.html).to.include('Can’t verify this app');
}

describe('a new authorization with a metadata document', () => {
  const publishing = usePublishing('sqlite');

  it('CIM-08 the document is fetched again only after its max-age', async () => {
    const { host, newClient, visit } = publishing();
    host.answer = publish({}, { 'cache-control': 'max-age=7200' });
    const client = newClient();
    const asked = host.requests.length;
    expectSignIn(await visit(client));
    advanceClock(7100);
    expectSignIn(await visit(client));
    expect(host.requests).to.have.length(asked + 1);
    advanceClock(200);
    expectSignIn(await visit(client));
    expect(host.requests).to.have.length(asked + 2);
  });

  it('a device is identified by its document, which its polls and web pages never fetch', async () => {
    const { host, newClient, server, connector } = publishing();
    const grant_types = ['authorization_code', DEVICE_CODE];
    host.answer = publish({ grant_types });
    const asked = host.requests.length;
    const client = newClient();
    const resource = connector.link;
    const origin = { origin: 'https://page.example' };
    const refused = await askForDevice(server, client, { resource }, origin);
    expect(refused.body.error).to.equal('invalid_client');
    expect(host.requests).to.have.length(asked);
    const { body } = await askForDevice(server, client, { resource });
    expect(host.requests).to.have.length(asked + 1);
    advanceClock(30);
    host.answer = hangUp;
    const answer = await poll(server, client, body.device_code);
    expect(answer.body.error).to.equal('authorization_pending');
  });

  it('a document of 5 kB is accepted', async () => {
    const { host, newClient, visit } = publishing();
    const client = newClient();
    const redirects = (length: number) => [
      'http://127.0.0.1/callback',
      ...Array.from({ length: 3 }, (_, at) => `http://127.0.0.1/${at}/${'x'.repeat(1500)}`),
      `http://127.0.0.1/${'x'.repeat(length)}`,
    ];
    const document = (length: number) =>
      JSON.stringify({ client_id: client.id, redirect_uris: redirects(length) });
    const full = document(5 * 1024 - document(0).length);
    expect(full).to.have.length(5 * 1024);
    host.answer = answerWith(200, {}, full);
    expectSignIn(await visit(client));
  });

  const FAULTS: Record<string, RequestListener> = {
    'hangs up': hangUp,
    'answers 500': answerWith(500),
    'answers 503': answerWith(503),
    'answers 429': answerWith(429),
  };
  for (const [fault, answer] of Object.entries(FAULTS)) {
    it(`when the host ${fault}, the last valid copy is used, and without one the authorization is refused`, async () => {
      const { host, newClient, visit } = publishing();
      const client = newClient();
      expectSignIn(await visit(client));
      advanceClock(400);
      host.answer = answer;
      const asked = host.requests.length;
      expectSignIn(await visit(client));
      expect(host.requests).to.have.length(asked + 1);
      expectUnreadable(await visit(newClient()));
    });
  }

  const REFUSALS: Record<string, RequestListener> = {
    'answers 404': answerWith(404),
    'answers 410': answerWith(410),
    'answers 403': answerWith(403),
    redirects: answerWith(302, { location: `https://other.${DOMAIN}/client.json` }),
    'answers with a page': answerWith(200, { 'content-type': 'text/html' }, '<h1>Hello</h1>'),
    'publishes JSON that is not an object': answerWith(200, {}, '[]'),
    'publishes only unaccepted redirect URIs': publish({
      redirect_uris: ['https://elsewhere.example/callback'],
    }),
  };
  for (const [refusal, answer] of Object.entries(REFUSALS)) {
    it(`when the host ${refusal}, the authorization is refused despite an earlier copy`, async () => {
      const { host, newClient, visit } = publishing();
      const client = newClient();
      expectSignIn(await visit(client));
      advanceClock(400);
      host.answer = answer;
      expectUnreadable(await visit(client));
    });
  }

  it('a new authorization is refused while connected clients still refresh', async () => {
    const { system, connector, host, newClient, visit } = publishing();
    const client = newClient();
    const connection = await connect(system, connector, { as: { client } });
    advanceClock(400);
    host.answer = answerWith(404);
    expect((await refresh(connection.server, client, connection.refreshToken)).status).to.equal(
      200,
    );
    expectUnreadable(await visit(client));
  });

  it('CIM-06 after a failed fetch, the host is not asked again for a minute', async () => {
    const { host, newClient, visit } = publishing();
    host.answer = answerWith(404);
    const client = newClient();
    const connections = host.connections();
    for (let round = 0; round < 3; round += 1) expectUnreadable(await visit(client));
    expect(host.connections()).to.equal(connections + 1);
    host.answer = publish();
    advanceClock(61);
    expectSignIn(await visit(client));
  });

  it('CIM-01 a client_id that is not the URL of a document causes no fetch', async () => {
    const { host, newClient, visit } = publishing();
    const connections = host.connections();
    const ids = [
      `https://app.${DOMAIN}:8443/x`,
      `https://APP.${DOMAIN}/x`,
      `HTTPS://app.${DOMAIN}/x`,
      `https://app.${DOMAIN}./x`,
      `https://app.${DOMAIN}`,
      `https://app.${DOMAIN}/`,
      `https://app.${DOMAIN}/x?y`,
      `https://app.${DOMAIN}/x#y`,
      `https://app.${DOMAIN}/a/../x`,
      `https://user@app.${DOMAIN}/x`,
      `https://app.${DOMAIN}/${'x'.repeat(500)}`,
      `http://app.${DOMAIN}/x`,
      'https://localhost/x',
      'https://127.0.0.1/x',
      'https://[::1]/x',
    ];
    for (const id of ids) {
      const page = requirePage(await visit({ ...newClient(), id }));
      expect(page.status, id).to.equal(400);
    }
    expect(host.connections()).to.equal(connections);
  });
});

describe('the stored copy of a metadata document', () => {
  const publishing = usePublishing('sqlite');
  const isStored = async (id: string) =>
    (await publishing().store.get(`metadata-document:${id}`)) !== undefined;

  it('the copy is deleted after a day if nobody approved the client', async () => {
    const { newClient, visit } = publishing();
    const { id } = await newClientSeen();
    advanceClock(23 * HOUR);
    expect(await isStored(id)).to.equal(true);
    advanceClock(2 * HOUR);
    expect(await isStored(id)).to.equal(false);

    async function newClientSeen() {
      const client = newClient();
      expectSignIn(await visit(client));
      return client;
    }
  });

  it('the copy is kept for 90 days after the last use of an approved client', async () => {
    const { system, connector, newClient } = publishing();
    const client = newClient();
    const { server, refreshToken } = await connect(system, connector, { as: { client } });
    advanceClock(25 * DAY);
    expect((await refresh(server, client, refreshToken)).status).to.equal(200);
    advanceClock(89 * DAY);
    expect(await isStored(client.id)).to.equal(true);
    advanceClock(2 * DAY);
    expect(await isStored(client.id)).to.equal(false);
  });

  it('fetches by new authorizations do not extend the 90 days', async () => {
    const { system, connector, newClient, visit, host } = publishing();
    const client = newClient();
    await connect(system, connector, { as: { client } });
    const asked = host.requests.length;
    for (let day = 2; day <= 4; day += 2) {
      advanceClock(2 * DAY);
      expectSignIn(await visit(client));
    }
    expect(host.requests).to.have.length(asked + 2);
    advanceClock(85 * DAY);
    expect(await isStored(client.id)).to.equal(true);
    advanceClock(2 * DAY);
    expect(await isStored(client.id)).to.equal(false);
  });
});

describe('a document on a name that resolves to a private address', () => {
  const publishing = usePublishing('sqlite', ({ network: { port } }) => ({
    network: { port, resolve: async () => ['127.0.0.77'] },
    limits: { minFailureSeconds: 0 },
  }));

  it('CIM-02 CIM-14 the page is that of an unreachable document, and nothing connects to the address', async () => {
    const { host, newClient, visit } = publishing();
    expectUnreadable(await visit(newClient()));
    expect(host.connections()).to.equal(0);
  });
});

describe('startup with an ineffective address check', () => {
  it('CIM-03 Gatehouse does not start if documents could be fetched from this computer', async () => {
    const place = await createDeployment();
    const host = await startDocumentHost('127.0.0.1');
    try {
      const network = { ...host.network, isAllowed: () => true };
      const outcome = await startGatehouse(loadSettings(place.environment), {
        documentFetching: { network },
      }).then(
        async ({ stop }) => {
          await stop();
          return 'started';
        },
        (error: Error) => error.message,
      );
      expect(outcome).to.match(/could be fetched from this computer itself/);
    } finally {
      await host.stop();
      await place.release();
    }
  });
});
