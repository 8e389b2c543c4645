// Gatehouse as a client of the service where people have accounts: how it is known there, and what it sends.
import { expect } from 'chai';
import { decodeJwt } from 'jose';
import { findService, type OAuthUpstream, serviceOptions } from '../../src/credentials/service.ts';
import { DEVELOPMENT, load } from '../settings/settings-file.ts';
import { openBrowser, requirePage } from '../support/browser.ts';
import { openConsent } from '../support/connection.ts';
import {
  type Connected,
  later,
  openAddress,
  settingsFor,
  textOf,
  usePersonalUpstream,
} from '../support/credentials/system.ts';
import { createConnector, readAllAudit, requestManagement } from '../support/management-api.ts';
import { startSystem, type System } from '../support/system.ts';
import type { RpcResponse } from '../support/mcp.ts';
import { openSystemStore } from '../support/system-store.ts';

const CLIENT_REFUSED = { status: 401, body: '{"error":"invalid_client"}' };

const accountOf = ({ token }: Connected) => String(decodeJwt(token).sub);

/** What the audit log has about credentials that could not be used, as their causes. */
async function failuresOf(system: System, app: Connected): Promise<unknown[]> {
  const items = await readAllAudit(system);
  return items
    .filter(({ event, account }) => event === 'credential_failed' && account === accountOf(app))
    .map(({ arguments: given }) => (given as { cause: string }).cause);
}

async function connectAt({ browser }: Connected, asked: RpcResponse) {
  const page = await openAddress(asked, browser);
  return requirePage(await browser.submit(page, { credential: 'now' }));
}

describe('A client that was registered at the service of own accounts', () => {
  const { system, service, connectAs } = usePersonalUpstream();
  const lastClient = () => service().tokenRequests.at(-1)?.get('client_id');
  const disconnect = (app: Connected) =>
    requestManagement(system(), 'DELETE', `/credentials/tools.${accountOf(app)}`);
  let ada: Connected;
  let grace: Connected;
  before(async () => {
    ada = await connectAs('ada');
    grace = await connectAs('grace');
  });

  it('is one for all people', async () => {
    expect(textOf(await ada.call())).to.equal('ada');
    expect(textOf(await grace.call())).to.equal('ada');
    expect(service().registrations).to.have.length(1);
    expect(lastClient()).to.equal('registered-1');
  });

  it('is registered anew after the service has forgotten it, and people of the old one are asked again when their own refresh fails', async () => {
    service().expire();
    service().tokenAnswers = [CLIENT_REFUSED];
    const asked = await ada.call();
    expect(textOf(asked)).to.contain('/credentials/tools?for=');
    const kept = await requestManagement(system(), 'GET', `/credentials?account=${accountOf(ada)}`);
    expect(JSON.stringify(kept)).to.contain('"kind":"oauth"');
    expect(await failuresOf(system(), ada)).to.deep.equal(['invalid_client']);
    expect((await connectAt(ada, asked)).status).to.equal(200);
    expect(textOf(await ada.call())).to.equal('ada');
    expect(lastClient()).to.equal('registered-2');

    service().tokenAnswers = [CLIENT_REFUSED];
    expect((await connectAt(grace, await grace.call())).status).to.equal(200);
    expect(textOf(await grace.call())).to.equal('ada');
    expect(lastClient()).to.equal('registered-2');
    expect(service().registrations).to.have.length(2);
  });

  it('is registered anew after the service refused it with a code', async () => {
    await disconnect(grace);
    const known = service().registrations.length;
    const asked = await grace.call();
    service().tokenAnswers = [CLIENT_REFUSED];
    expect((await connectAt(grace, asked)).html).to.contain('set up right');
    expect((await connectAt(grace, asked)).status).to.equal(200);
    expect(textOf(await grace.call())).to.equal('ada');
    expect(service().registrations).to.have.length(known + 1);
  });
});

describe('A service of own accounts that refuses to register a client', () => {
  const { system, service, connectAs } = usePersonalUpstream();

  it('is in the audit log once an hour, and people read that it is not set up', async () => {
    service().registrationStatus = 403;
    const ada = await connectAs('ada', later);
    for (let n = 0; n < 2; n += 1) {
      const page = await connectAt(ada, await ada.call());
      expect(page.status).to.equal(400);
      expect(page.html).to.contain('set up right');
    }
    expect(await failuresOf(system(), ada)).to.deep.equal(['registration_refused']);
  });
});

describe('A client of the settings at the service of own accounts', () => {
  const { system, service, connectAs } = usePersonalUpstream({
    kind: 'oauth',
    clientId: 'named',
    tokenAuth: 'none',
    scopes: ['tools'],
    authorizeParams: { prompt: 'consent' },
  });
  let ada: Connected;
  before(async () => {
    service().metadata = { scopes_supported: ['tools', 'offline_access'] };
    ada = await connectAs('ada');
  });

  it('asks with PKCE, state, further parameters and offline_access, and names the same resource in authorization, code and refresh', async () => {
    const asked = service().authorizations.at(-1);
    expect(Object.fromEntries(asked ?? [])).to.include({
      client_id: 'named',
      code_challenge_method: 'S256',
      prompt: 'consent',
      resource: service().url,
      scope: 'tools offline_access',
    });
    expect(asked?.get('state')).to.match(/^.{32}$/);
    service().expire();
    expect(textOf(await ada.call())).to.equal('ada');
    const [code, refresh, ...others] = service().tokenRequests;
    expect(others).to.deep.equal([]);
    expect(code?.get('resource')).to.equal(service().url);
    expect(refresh?.get('resource')).to.equal(service().url);
    expect(service().registrations).to.deep.equal([]);
  });

  it('is for the operator to mend if the service refuses it, and the account stays connected', async () => {
    service().expire();
    service().tokenAnswers = [CLIENT_REFUSED];
    expect(textOf(await ada.call())).to.contain('not set up right');
    expect(await failuresOf(system(), ada)).to.deep.equal(['invalid_client']);
    expect(textOf(await ada.call())).to.equal('ada');
  });
});

describe('A registration that answers with a secret', () => {
  const { service, connectAs } = usePersonalUpstream({
    kind: 'oauth',
    resource: 'urn:example:notes',
  });

  for (const method of ['client_secret_post', 'none'])
    it(`is obeyed where it says ${method}, in code and refresh, with the resource of the settings`, async () => {
      const secret = `secret-of-the-registration-${method}`;
      // A client is registered for each issuer once.
      service().metadata = { issuer: service().origin + (method === 'none' ? '/' : '') };
      service().registrationMembers = {
        client_secret: secret,
        token_endpoint_auth_method: method,
      };
      service().tokenRequests.length = 0;
      const app = await connectAs(method === 'none' ? 'grace' : 'ada');
      service().expire();
      expect(textOf(await app.call())).to.equal('ada');
      const sent = service().tokenRequests.map((form) => [
        form.get('grant_type'),
        form.get('client_secret'),
        form.get('resource'),
      ]);
      expect(sent).to.deep.equal([
        ['authorization_code', secret, 'urn:example:notes'],
        ['refresh_token', secret, 'urn:example:notes'],
      ]);
      expect(service().authorizations.at(-1)?.get('resource')).to.equal('urn:example:notes');
    });
});

describe('A service of Google whose endpoints are in the settings', () => {
  let system: System;
  before(async function start() {
    const credential = {
      kind: 'oauth',
      authorizationEndpoint: 'https://accounts.google.com/o/oauth2/v2/auth',
      tokenEndpoint: 'https://oauth2.googleapis.com/token',
      clientId: 'named',
      tokenAuth: 'none',
      scopes: ['openid'],
    };
    system = await startSystem({ file: settingsFor('http://127.0.0.1:9/mcp', credential) });
  });
  after(() => system?.stop());

  it('is asked for a refresh token, and for no resource', async () => {
    const { link } = await createConnector(system);
    const browser = openBrowser(system.origins);
    const opened = await openConsent(system, { link }, { as: { browser } });
    const page = requirePage(await opened.decide({ decision: 'approve' }));
    const away = await browser.submit(page, { credential: 'now' });
    if (away.kind !== 'redirect') throw new Error('it did not leave for the service');
    expect(away.url.origin).to.equal('https://accounts.google.com');
    expect(away.url.searchParams.get('access_type')).to.equal('offline');
    expect(away.url.searchParams.has('resource')).to.equal(false);
  });
});

describe('A service that takes metadata documents of clients', () => {
  const { system, service } = usePersonalUpstream();

  it('knows Gatehouse by its own document, and registers nothing', async () => {
    service().metadata = { client_id_metadata_document_supported: true };
    const response = await fetch(`${system().auth}/credentials/client.json`);
    const document = (await response.json()) as Record<string, unknown>;
    expect(document).to.include({
      client_id: `${system().auth}/credentials/client.json`,
      token_endpoint_auth_method: 'none',
    });
    expect(document['redirect_uris']).to.deep.equal([`${system().auth}/credentials/callback`]);
    // Services fetch the document only over https.
    const settings = {
      ...load({ ...DEVELOPMENT, ...settingsFor(service().url) }),
      authUrl: 'https://auth.example.com',
    };
    const [upstream] = settings.upstreams;
    const { store } = await openSystemStore(system());
    try {
      const options = serviceOptions(settings, { store, now: () => 0 }, upstream as OAuthUpstream);
      const { clientId, auth } = await findService(upstream as OAuthUpstream, options);
      expect({ clientId, auth }).to.deep.equal({
        clientId: 'https://auth.example.com/credentials/client.json',
        auth: 'none',
      });
    } finally {
      await store.close();
    }
    expect(service().registrations).to.deep.equal([]);
  });
});
