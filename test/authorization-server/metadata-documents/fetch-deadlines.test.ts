import { once } from 'node:events';
import { expect } from 'chai';
import {
  FETCH_LIMITS,
  limitFetches,
} from '../../../src/authorization-server/engine/client-metadata-documents.ts';
import {
  DocumentUnreachable,
  fetchDocument,
  type Network,
} from '../../../src/authorization-server/engine/guarded-fetch.ts';
import { meetsDeadline } from '../../support/deadlines.ts';
import {
  answerWith,
  DOMAIN,
  type DocumentHost,
  failureOf,
  startDocumentHost,
} from './document-host.ts';

describe('the time that fetches of metadata documents take', () => {
  let host: DocumentHost;
  beforeEach(async () => {
    host = await startDocumentHost();
  });
  afterEach(() => host.stop());

  it('CIM-05 a fetch times out after 2.5 s, in name resolution, before the response and during it', async () => {
    const never = new Promise<string[]>(() => {});
    const slowName: Network = {
      ...host.network,
      resolve: (_host, signal) => Promise.race([never, once(signal, 'abort').then(() => [])]),
    };
    host.answer = (request, response) => {
      if (request.url === '/silent') return;
      response.writeHead(200, { 'content-type': 'application/json' });
      const drip = setInterval(() => response.write(' '), 100);
      response.on('close', () => clearInterval(drip));
    };
    await meetsDeadline('documentTimeout', async () => {
      host.requests.length = 0;
      const startedAt = performance.now();
      const failures = await Promise.all([
        failureOf(`https://app.${DOMAIN}/silent`, host.network),
        failureOf(`https://app.${DOMAIN}/drip`, host.network),
        failureOf(`https://app.${DOMAIN}/never-asked`, slowName),
      ]);
      expect(performance.now() - startedAt).to.be.at.least(2300);
      for (const failure of failures) expect(failure).to.be.instanceOf(DocumentUnreachable);
      expect(host.requests).to.have.members(['/silent', '/drip']);
    });
  });

  it('CIM-02 every failure takes equally long, so that its timing reveals nothing', async () => {
    const minFailureSeconds = 0.1;
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
    await measure(host.network);
    await measure({ ...host.network, resolve: async () => ['127.0.0.1'] });
    await measure({ ...host.network, resolve: () => Promise.reject(new Error('ENOTFOUND')) });
    await host.stop();
    await measure(host.network);
  });
});
