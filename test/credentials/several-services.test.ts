// Several services behind one redirect URI, and servers that change or lose theirs.
import { expect } from 'chai';
import { decodeJwt } from 'jose';
import { openBrowser, requirePage } from '../support/browser.ts';
import {
  startProtectedServer,
  type ProtectedServer,
} from '../support/credentials/protected-server.ts';
import {
  connectPerson,
  later,
  openAddress,
  settingsFor,
  textOf,
  usePersonalUpstream,
} from '../support/credentials/system.ts';
import { createConnector, requestManagement } from '../support/management-api.ts';
import { changeSettings } from '../support/settings-file.ts';
import { startSystem, type System } from '../support/system.ts';
import { until } from '../support/until.ts';

describe('Two services of own accounts behind one redirect URI', () => {
  let honest: ProtectedServer;
  let hostile: ProtectedServer;
  let system: System;

  before(async function start() {
    [honest, hostile] = await Promise.all([startProtectedServer(), startProtectedServer()]);
    const upstream = (id: string, { url }: ProtectedServer) => ({
      id,
      url,
      name: id,
      defaultLevel: 'analytics',
      credential: { kind: 'oauth' },
    });
    const upstreams = [upstream('honest', honest), upstream('hostile', hostile)];
    system = await startSystem({ file: { resourceServer: { upstreams } } });
  });
  after(async () => {
    await system?.stop();
    await honest?.close();
    await hostile?.close();
  });

  it('CRD-04 a code of the one with the state of the other leaves for neither, if it comes with iss', async () => {
    honest.callbackMembers = { iss: honest.origin };
    const { link } = await createConnector(system, { name: 'Both', upstream: 'hostile' });
    let status = 0;
    const person = await connectPerson({
      system,
      service: hostile,
      link,
      person: 'ada',
      // The hostile service sends the browser to the honest one.
      complete: async (asked, browser) => {
        const only = openBrowser(system.origins);
        only.jar.push(...browser.jar);
        const away = await only.submit(asked, { credential: 'now' });
        if (away.kind !== 'redirect') throw new Error('it did not leave for the service');
        const there = `${honest.origin}/authorize${away.url.search}`;
        const response = await fetch(there, { redirect: 'manual' });
        ({ status } = requirePage(await only.visit(String(response.headers.get('location')))));
        return browser.submit(asked, { credential: 'later' });
      },
    });
    expect(status).to.be.within(400, 403);
    expect([...hostile.tokenRequests, ...honest.tokenRequests]).to.deep.equal([]);
    expect(textOf(await person.call())).to.contain('/credentials/hostile?for=');
  });
});

describe('A service without metadata', () => {
  let service: ProtectedServer;
  let system: System;
  before(async function start() {
    service = await startProtectedServer();
    const { origin, url } = service;
    const credential = {
      kind: 'oauth',
      authorizationEndpoint: `${origin}/authorize`,
      tokenEndpoint: `${origin}/token`,
      clientId: 'named',
      tokenAuth: 'none',
    };
    system = await startSystem({ file: settingsFor(url, credential) });
  });
  after(async () => {
    await system?.stop();
    await service?.close();
  });

  for (const [iss, isTaken] of [
    ['https://honest.example', false],
    ['no address', false],
    ['', false],
    ['its own origin', true],
    [undefined, true],
  ] as const)
    it(`CRD-04 gets ${isTaken ? 'the' : 'no'} code of a way back with the iss ${iss}`, async () => {
      const given = isTaken && iss ? service.origin : iss;
      service.callbackMembers = given === undefined ? {} : { iss: given };
      service.tokenRequests.length = 0;
      const { link } = await createConnector(system, { name: 'Endpoints' });
      const person = { system, service, link, person: 'ada', complete: later } as const;
      const ada = await connectPerson(person);
      if (textOf(await ada.call()) === 'ada') {
        const id = `tools.${String(decodeJwt(ada.token).sub)}`;
        await requestManagement(system, 'DELETE', `/credentials/${id}`);
      }
      const page = await openAddress(await ada.call(), ada.browser);
      const back = requirePage(await ada.browser.submit(page, { credential: 'now' }));
      expect(back.status === 200).to.equal(isTaken);
      expect(service.tokenRequests).to.have.length(isTaken ? 1 : 0);
    });
});

describe('A server that the settings lose while a person connects an account', () => {
  const { system, service, connectAs } = usePersonalUpstream();

  it('CRD-32 gets no code, and the person is asked again when it is back', async () => {
    const ada = await connectAs('ada', later);
    const page = await openAddress(await ada.call(), ada.browser);
    const only = openBrowser(system().origins);
    only.jar.push(...ada.browser.jar);
    const away = await only.submit(page, { credential: 'now' });
    if (away.kind !== 'redirect') throw new Error('it did not leave for the service');
    const response = await fetch(away.url, { redirect: 'manual' });
    const upstreams = [{ id: 'others', url: service().url, defaultLevel: 'analytics' }];
    const restore = changeSettings(system(), { resourceServer: { upstreams } });
    await requestManagement(system(), 'POST', '/settings/reload', {});
    const way = String(response.headers.get('location'));
    expect(requirePage(await only.visit(way)).status).to.equal(404);
    expect(service().tokenRequests).to.deep.equal([]);
    restore();
    await requestManagement(system(), 'POST', '/settings/reload', {});
    expect(requirePage(await only.visit(way)).status).to.equal(400);
    await until('the server to be back', async () =>
      textOf(await ada.call())?.includes('/credentials/tools?for='),
    );
    const again = await openAddress(await ada.call(), ada.browser);
    await ada.browser.submit(again, { credential: 'now' });
    expect(textOf(await ada.call())).to.equal('ada');
  });
});

describe('A server whose service has a client with a secret', () => {
  const { service, connectAs } = usePersonalUpstream({
    kind: 'oauth',
    clientId: 'named',
    clientSecret: 'the secret of the client',
  });

  it('CRD-17 the secret goes to no other authorization server that the server names later', async () => {
    const ada = await connectAs('ada');
    expect(textOf(await ada.call())).to.equal('ada');
    const other = await startProtectedServer();
    service().resourceMetadata = { authorization_servers: [other.origin] };
    const grace = await connectAs('grace', later);
    const page = await openAddress(await grace.call(), grace.browser);
    expect(requirePage(await grace.browser.submit(page, { credential: 'now' })).status).to.equal(
      400,
    );
    expect(other.authorizations).to.deep.equal([]);
    service().expire();
    expect(textOf(await ada.call())).to.equal('ada');
    expect(other.tokenRequests).to.deep.equal([]);
    await other.close();
  });
});
