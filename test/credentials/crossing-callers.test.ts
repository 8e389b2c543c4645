// Callers of other kinds, other issuers and other upstreams beside people who have connected an account.
import { expect } from 'chai';
import { decodeJwt } from 'jose';
import {
  type ProtectedServer,
  startProtectedServer,
} from '../support/credentials/protected-server.ts';
import {
  type Connected,
  connectPerson,
  later,
  settingsFor,
  textOf,
  UPSTREAM,
  usePersonalUpstream,
  WHOAMI,
} from '../support/credentials/system.ts';
import { idOf, useIdJag } from '../support/id-jag-system.ts';
import { createConnector, requestManagement } from '../support/management-api.ts';
import { call } from '../support/mcp.ts';
import { changeSettings } from '../support/settings-file.ts';
import { startSystem, type System } from '../support/system.ts';
import { until } from '../support/until.ts';
import { exchangeJwt, type Platform, startPlatform } from '../support/workload-platform.ts';

const NO_PERSON = 'acts with the own account of a person';

describe('Callers who are no persons, at an upstream where people have own accounts', () => {
  let platform: Platform;
  let service: ProtectedServer;
  let system: System;
  let links: Record<string, string>;
  before(async function start() {
    platform = await startPlatform();
    service = await startProtectedServer();
    const upstream = (id: string, headers: object) => ({
      ...settingsFor(service.url, undefined, { headers }).resourceServer.upstreams[0],
      id,
      name: id,
    });
    const workload = (id: string, connector: string) => ({
      id,
      match: { subject: id },
      connector,
      level: 'analytics',
    });
    system = await startSystem({
      file: {
        resourceServer: {
          upstreams: [upstream(UPSTREAM, {}), upstream('shared', { Authorization: 'Bearer ours' })],
        },
        authorization: {
          trustedIssuers: [
            {
              id: 'platform',
              issuer: platform.issuer,
              workloads: [workload('job-tools', UPSTREAM), workload('job-shared', 'shared')],
            },
          ],
        },
      },
    });
    const names = [UPSTREAM, 'shared'];
    const made = names.map((name) => createConnector(system, { name, upstream: name }));
    links = Object.fromEntries((await Promise.all(made)).map(({ name, link }) => [name, link]));
    service.acceptKey('ours');
    // A person has connected accounts at both.
    for (const name of names) {
      const link = String(links[name]);
      const ada = await connectPerson({ system, service, link, person: 'ada' });
      expect(textOf(await ada.call())).to.equal('ada');
    }
  });
  after(async () => {
    await system?.stop();
    await service?.close();
    await platform?.stop();
  });

  const manage = async <T>(path: string, body: object) =>
    (await requestManagement(system, 'POST', path, body)) as T;

  /** A token for the link of the upstream, or of the endpoint of minted tokens. */
  const obtain: Record<string, (upstream: string) => Promise<{ link: string; token: string }>> = {
    async machine(upstream) {
      const link = String(links[upstream]);
      const connector = link.split('/').at(-2);
      const { id, secret } = await manage<{ id: string; secret: string }>('/clients', {
        name: 'CI',
        connector,
        level: 'analytics',
      });
      const response = await fetch(`${system.auth}/oauth/token`, {
        method: 'POST',
        headers: { authorization: `Basic ${Buffer.from(`${id}:${secret}`).toString('base64')}` },
        body: new URLSearchParams({ grant_type: 'client_credentials', resource: link }),
      });
      const { access_token: token } = (await response.json()) as { access_token: string };
      return { link, token };
    },
    async workload(upstream) {
      const link = String(links[upstream]);
      const iat = Math.floor(Date.now() / 1000);
      const claims = { iss: platform.issuer, aud: system.auth, iat, exp: iat + 300 };
      const assertion = await platform.sign({ ...claims, sub: `job-${upstream}` });
      const { body } = await exchangeJwt(system.auth, { assertion, resource: link });
      return { link, token: String(body['access_token']) };
    },
    async 'minted token'(upstream) {
      const { token } = await manage<{ token: string }>('/tokens', {
        name: 'Script',
        level: 'analytics',
        upstream,
      });
      return { link: `${system.resource}/mcp`, token };
    },
  };

  for (const [kind, obtainFor] of Object.entries(obtain)) {
    it(`CRD-29 a ${kind} is refused with a tool error where there are no headers`, async () => {
      const { link, token } = await obtainFor(UPSTREAM);
      service.calls.length = 0;
      const answer = await call(link, token, WHOAMI);
      expect(answer.rpc?.result?.isError).to.equal(true);
      expect(textOf(answer)).to.contain(NO_PERSON).and.not.contain('http');
      expect(service.calls).to.deep.equal([]);
    });

    it(`CRD-29 a ${kind} has the headers of the operator and nothing else, also if it sends its own`, async () => {
      const { link, token } = await obtainFor('shared');
      service.calls.length = 0;
      await call(link, token, WHOAMI, { headers: { 'x-api-key': 'theirs', cookie: 'a=b' } });
      expect(service.calls.map((each) => each.token)).to.deep.equal(['ours']);
    });
  }

  it('CRD-30 the account at one upstream is not used at another one with the same address', async () => {
    const person = { system, service, person: 'grace' } as const;
    const first = await connectPerson({ ...person, link: String(links[UPSTREAM]) });
    expect(textOf(await first.call())).to.equal('ada');
    const second = await connectPerson({
      ...person,
      link: String(links['shared']),
      complete: later,
    });
    service.calls.length = 0;
    expect(textOf(await second.call())).to.contain('/credentials/shared?for=');
    expect(service.calls).to.deep.equal([]);
  });
});

describe('A person of a trusted issuer with the subject of somebody who has connected an account', () => {
  const { setup, claimsFor, presentAssertion, obtainToken } = useIdJag();
  let service: ProtectedServer;
  let link: string;
  let ada: Connected;
  before(async () => {
    service = await startProtectedServer();
    const { system } = setup();
    const { id: _id, ...upstream } = settingsFor(service.url).resourceServer.upstreams[0] ?? {};
    changeSettings(system, { resourceServer: { upstream } });
    await requestManagement(system, 'POST', '/settings/reload', {});
    ({ link } = setup().connector);
    ada = await connectPerson({ system, service, link, person: 'ada' });
    expect(textOf(await ada.call())).to.equal('ada');
  });
  after(() => service?.close());

  it('CRD-31 has no account of the other issuer', async () => {
    const { idp, second } = setup();
    const { token, claims } = await obtainToken('ada');
    const foreign = { ...claimsFor('ada'), iss: second.issuer };
    const other = await presentAssertion(await second.sign(foreign));
    const tokens = [token, String(other.body.access_token)];
    const accounts = [ada.token, ...tokens].map((each) => decodeJwt(each).sub);
    expect(new Set(accounts).size, `${idOf(idp.issuer)} ${String(claims.sub)}`).to.equal(3);
    service.calls.length = 0;
    for (const each of tokens)
      expect(textOf(await call(link, each, WHOAMI))).to.contain('/credentials/default?for=');
    expect(service.calls.filter(({ method }) => method === 'tools/call')).to.deep.equal([]);
  });
});

describe('A stream that is opened while the account is disconnected', () => {
  const { system, service, link, connectAs } = usePersonalUpstream();

  it('CRD-08 ends, whatever came first', async () => {
    const ada = await connectAs('ada');
    const id = `${UPSTREAM}.${String(decodeJwt(ada.token).sub)}`;
    for (let round = 0; round < 3; round += 1) {
      const headers = { authorization: `Bearer ${ada.token}`, accept: 'text/event-stream' };
      const opening = fetch(link(), { headers });
      const ending = requestManagement(system(), 'DELETE', `/credentials/${id}`);
      const [open] = await Promise.all([opening, ending]);
      // Without an account, it waits for one.
      const again = await connectPerson({
        system: system(),
        service: service(),
        link: link(),
        person: 'ada',
      });
      expect(textOf(await again.call())).to.equal('ada');
      await open.text();
      await until('the server to lose the stream', () => service().streams.size === 0);
    }
  });
});
