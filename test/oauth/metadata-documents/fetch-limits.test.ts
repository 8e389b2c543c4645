import { expect } from 'chai';
import {
  FETCH_LIMITS,
  type FetchLimits,
  limitFetches,
  TooManyFetches,
} from '../../../src/oauth/engine/client-metadata-documents.ts';
import {
  AddressRefused,
  fetchDocument,
  type FetchedDocument,
} from '../../../src/oauth/engine/guarded-fetch.ts';
import { StoreUnavailable } from '../../../src/store/store.ts';
import {
  answerWith,
  DOMAIN,
  type DocumentHost,
  publish,
  startDocumentHost,
} from './document-host.ts';

/** The longest delay of a timer, 24 days. */
const NEVER = 2_147_483;
const QUICK: FetchLimits = { ...FETCH_LIMITS, minFailureSeconds: 0 };

describe('limits on fetches of metadata documents', () => {
  let host: DocumentHost;
  let time = 1_000_000;
  beforeEach(async () => {
    host = await startDocumentHost();
  });
  afterEach(() => host.stop());

  const limitedFetch = (limits: FetchLimits): ((url: string) => Promise<FetchedDocument>) =>
    limitFetches(
      (url) => fetchDocument(url, host.network),
      limits,
      () => time,
    );
  const failureOf = (attempt: Promise<unknown>): Promise<unknown> =>
    attempt.then(
      () => expect.fail('succeeded'),
      (error: unknown) => error,
    );

  it('by default, a failure takes as long as the fetch timeout', () => {
    expect(FETCH_LIMITS.minFailureSeconds).to.equal(2.5);
  });

  it('CIM-05 concurrent fetches of one document share a request', async () => {
    const fetch = limitedFetch(QUICK);
    const url = `https://app.${DOMAIN}/shared`;
    const all = await Promise.all(Array.from({ length: 20 }, () => fetch(url)));
    expect(all.every(({ text }) => text.includes(url))).to.equal(true);
    expect(host.requests).to.deep.equal(['/shared']);
  });

  it('CIM-05 concurrent fetches are limited, in total and per host', async () => {
    const fetch = limitedFetch({ ...QUICK, maxConcurrent: 3, maxConcurrentPerHost: 2 });
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    host.answer = (request, response) => void released.then(() => publish()(request, response));
    const waiting = ['one.', 'one.', 'two.'].map((name, at) =>
      fetch(`https://${name.slice(0, -1)}.${DOMAIN}/${at}`),
    );
    const one = `https://one.${DOMAIN}/more`;
    const three = `https://three.${DOMAIN}/more`;
    expect(await failureOf(fetch(one))).to.be.instanceOf(TooManyFetches);
    expect(await failureOf(fetch(three))).to.be.instanceOf(TooManyFetches);
    release();
    await Promise.all(waiting);
    await Promise.all([fetch(one), fetch(three)]);
    expect(host.requests).to.have.members(['/0', '/1', '/2', '/more', '/more']);
  });

  it('a host at its limit does not block other hosts', async () => {
    const fetch = limitedFetch({
      ...FETCH_LIMITS,
      minFailureSeconds: 0.3,
      maxConcurrentPerHost: 1,
    });
    host.answer = (request, response) => {
      const answer = request.url === '/a' ? answerWith(404) : publish();
      answer(request, response);
    };
    const failing = failureOf(fetch(`https://one.${DOMAIN}/a`));
    expect(await failureOf(fetch(`https://one.${DOMAIN}/b`))).to.be.instanceOf(TooManyFetches);
    await fetch(`https://two.${DOMAIN}/c`);
    await failing;
    await fetch(`https://one.${DOMAIN}/b`);
  });

  it('a store error is passed on at once and not cached', async () => {
    let away = true;
    const fetch = limitFetches(
      async (url) => {
        if (away) throw new StoreUnavailable(new Error('stalled'));
        return url;
      },
      { ...FETCH_LIMITS, minFailureSeconds: NEVER },
      () => time,
    );
    // Other failures never end with this padding.
    expect(await failureOf(fetch('https://app.example/x'))).to.be.instanceOf(StoreUnavailable);
    away = false;
    expect(await fetch('https://app.example/x')).to.equal('https://app.example/x');
  });

  it('a refused address is cached as a failure', async () => {
    let resolved = 0;
    const fetch = limitFetches(
      (url) =>
        fetchDocument(url, {
          ...host.network,
          resolve: async () => {
            resolved += 1;
            return ['10.0.0.1'];
          },
        }),
      QUICK,
      () => time,
    );
    for (let round = 0; round < 3; round += 1)
      expect(await failureOf(fetch('https://inside.example/x'))).to.be.instanceOf(AddressRefused);
    expect(resolved).to.equal(1);
    expect(host.connections()).to.equal(0);
  });
});
