import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { makeCertificate } from '../oauth/metadata-documents/certificate.ts';
import { advanceClock, freezeClock, restoreClock } from '../support/clock.ts';
import { createConnector } from '../support/management-api.ts';
import { startSystem, type System } from '../support/system.ts';
import {
  exchangeJwt,
  type Members,
  type Platform,
  startPlatform,
} from '../support/workload-platform.ts';

const DAYS = { from: -1, until: 60 };
const AUTHORITY = 'Cluster Authority';

/** How long fetched keys are used. */
const MAX_AGE = 600;

describe('Keys of an issuer of workloads', () => {
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-test-'));
  const [caFile, tokenFile] = [join(folder, 'ca.crt'), join(folder, 'token')];
  const authority = { name: AUTHORITY, ...makeCertificate(AUTHORITY, DAYS) };
  const certificate = makeCertificate('localhost', DAYS, authority);
  let required = 'first-token';
  const platforms: Platform[] = [];
  let cluster: Platform;
  let elsewhere: Platform;
  let split: Platform;
  let unreachable: Platform;
  let untrusted: Platform;
  let open: Platform;
  let system: System;
  let link = '';
  before(async () => {
    const start = async (options: Parameters<typeof startPlatform>[0]) => {
      const platform = await startPlatform(options);
      platforms.push(platform);
      return platform;
    };
    const requiredToken = () => required;
    cluster = await start({ certificate, requiredToken });
    elsewhere = await start({ certificate });
    const jwksUri = `${elsewhere.issuer}/keys`;
    split = await start({ certificate, requiredToken, jwksUri });
    unreachable = await start({ certificate, jwksUri });
    untrusted = await start({ certificate });
    open = await start({});
    writeFileSync(caFile, authority.cert);
    writeFileSync(tokenFile, `${required}\n`);
    const workloads = [
      { id: 'any', match: { subject: 'job' }, connector: 'Jobs', level: 'analytics' },
    ];
    const trusted = (id: string, { issuer }: Platform, more: object = {}) => {
      return { id, issuer, workloads, ...more };
    };
    const trustedIssuers = [
      trusted('cluster', cluster, { caFile, tokenFile }),
      trusted('split', split, { caFile, tokenFile, privateNetwork: true }),
      trusted('unreachable', unreachable, { caFile }),
      trusted('untrusted', untrusted),
      trusted('open', open, { jwksUri: `${open.issuer}/keys` }),
    ];
    system = await startSystem({ file: { authorization: { trustedIssuers } } });
    link = (await createConnector(system, { name: 'Jobs' })).link;
  });
  after(async () => {
    await system?.stop();
    await Promise.all(platforms.map(({ stop }) => stop()));
    rmSync(folder, { recursive: true });
  });
  afterEach(restoreClock);

  async function exchange(platform: Platform, header: Members = {}, changed: Members = {}) {
    const iat = Math.floor(Date.now() / 1000);
    const claims = { iss: platform.issuer, sub: 'job', aud: system.auth, iat, exp: iat + 300 };
    const assertion = await platform.sign({ ...claims, ...changed }, header);
    return exchangeJwt(system.auth, { assertion, resource: link });
  }

  it('WIF-09 nothing is fetched for a JWT that its own text excludes', async () => {
    const old = { iat: 1_000_000_000, exp: 1_000_000_300 };
    for (const [header, changed] of [
      [{ typ: 'at+jwt' }, {}],
      [{ typ: 'wit+jwt' }, {}],
      [{}, { aud: 'https://other.example' }],
      [{}, old],
      [{}, { iat: undefined }],
      [{}, { sub: undefined }],
    ])
      expect((await exchange(open, header, changed)).body['error']).to.equal('invalid_grant');
    expect(open.requests).to.deep.equal([]);
  });

  it('WIF-11 a cluster with its own authority and its own authentication is asked with caFile and tokenFile, which are read again', async () => {
    expect((await exchange(cluster)).status).to.equal(200);
    expect(cluster.requests.map(({ authorization }) => authorization)).to.deep.equal([
      'Bearer first-token',
      'Bearer first-token',
    ]);
    required = 'second-token';
    advanceClock(MAX_AGE);
    const early = await exchange(cluster);
    expect([early.status, early.headers.get('retry-after')]).to.deep.equal([503, '5']);
    writeFileSync(tokenFile, required);
    advanceClock(5);
    expect((await exchange(cluster)).status).to.equal(200);
  });

  it('WIF-11 the token is not sent to another host that the issuer names for its keys', async () => {
    writeFileSync(tokenFile, required);
    const signedElsewhere = { ...split, sign: elsewhere.sign };
    expect((await exchange(signedElsewhere)).status).to.equal(200);
    expect(split.requests[0]?.authorization).to.equal(`Bearer ${required}`);
    expect(elsewhere.requests.length).to.be.greaterThan(0);
    for (const { authorization } of elsewhere.requests) expect(authorization).to.equal(undefined);
  });

  it('WIF-12 without privateNetwork, an issuer cannot name an internal address for its keys', async () => {
    const before = elsewhere.requests.length;
    const { status, body } = await exchange(unreachable);
    expect([status, body['error']]).to.deep.equal([503, 'temporarily_unavailable']);
    expect(elsewhere.requests.length).to.equal(before);
  });

  it('WIF-11 a certificate of an unknown authority is not accepted without caFile', async () => {
    expect((await exchange(untrusted)).status).to.equal(503);
    expect(untrusted.requests).to.deep.equal([]);
  });

  it('WIF-09 Retry-After says when the keys may be fetched again, a minute after the last fetch', async () => {
    freezeClock();
    expect((await exchange(open)).status).to.equal(200);
    await open.rotate();
    advanceClock(20);
    const early = await exchange(open);
    expect(early.status).to.equal(503);
    expect(early.headers.get('retry-after')).to.equal('40');
    const fetches = open.fetches();
    // Also a failed fetch counts, because the known keys still work.
    advanceClock(40);
    open.fail(true);
    const failed = await exchange(open);
    expect([failed.status, failed.headers.get('retry-after')]).to.deep.equal([503, '60']);
    for (let n = 0; n < 5; n += 1)
      expect((await exchange(open, { kid: `unknown-${n}` })).status).to.equal(503);
    expect(open.fetches()).to.equal(fetches + 1);
    open.fail(false);
    advanceClock(60);
    expect((await exchange(open)).status).to.equal(200);
    expect(open.fetches()).to.equal(fetches + 2);
  });
});
