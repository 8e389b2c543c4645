import { expect } from 'chai';
import { FETCH_LIMITS, limitFetches } from '../../../src/oauth/engine/client-metadata-documents.ts';
import { fetchDocument } from '../../../src/oauth/engine/guarded-fetch.ts';
import { meetsDeadline } from '../../support/deadlines.ts';
import { freePorts } from '../../support/free-ports.ts';
import { answerWith, DOMAIN, type DocumentHost, startDocumentHost } from './document-host.ts';

describe('the time that fetches of metadata documents take', () => {
  let host: DocumentHost;
  beforeEach(async () => {
    host = await startDocumentHost();
  });
  afterEach(() => host.stop());

  it('CIM-02 every failure takes equally long, so that its timing reveals nothing', async () => {
    const minFailureSeconds = 0.1;
    const [closedPort = 0] = await freePorts(1);
    const measure = async (network: DocumentHost['network']) => {
      await meetsDeadline('paddedFailure', async () => {
        const fetch = limitFetches(
          (url) => fetchDocument(url, network),
          { ...FETCH_LIMITS, minFailureSeconds },
          () => 1_000_000,
        );
        const startedAt = performance.now();
        const failure = await fetch(`https://app.${DOMAIN}/x`).catch((error: Error) => error);
        expect(failure).to.be.instanceOf(Error);
        expect(performance.now() - startedAt).to.be.at.least(minFailureSeconds * 1000 - 5);
      });
    };
    host.answer = answerWith(404);
    await Promise.all([
      measure(host.network),
      measure({ ...host.network, resolve: async () => ['127.0.0.1'] }),
      measure({ ...host.network, resolve: () => Promise.reject(new Error('ENOTFOUND')) }),
      measure({ ...host.network, port: closedPort }),
    ]);
  });
});
