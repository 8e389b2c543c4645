import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import type { ClientRequest } from 'node:http';
import { expect } from 'chai';
import type { Network } from '../../../src/http/guarded-request.ts';
import {
  AddressRefused,
  DocumentRefused,
  DocumentUnreachable,
  fetchDocument,
} from '../../../src/oauth/engine/guarded-fetch.ts';
import { until } from '../../support/until.ts';
import {
  ALLOWED_ADDRESS,
  answerWith,
  DOMAIN,
  type DocumentHost,
  failureOf,
  hangUp,
  publish,
  startDocumentHost,
} from './document-host.ts';

const URL = `https://app.${DOMAIN}/client.json`;
const KILOBYTE = 1024;
/** Published when the client has the headers of a response. */
const RESPONSE = 'http.client.response.finish';

describe('fetching a metadata document', () => {
  let host: DocumentHost;
  beforeEach(async () => {
    host = await startDocumentHost();
  });
  afterEach(() => host.stop());

  it('CIM-08 a document is fetched with its Cache-Control', async () => {
    host.answer = publish({}, { 'cache-control': 'max-age=600' });
    const { text, cacheControl } = await fetchDocument(URL, host.network);
    expect(JSON.parse(text)).to.include({ client_id: URL, client_name: 'Published app' });
    expect(cacheControl).to.equal('max-age=600');
    expect(host.requests).to.deep.equal(['/client.json']);
  });

  for (const type of [
    'application/json; charset=utf-8',
    'application/cimd+json',
    'Application/JSON',
  ]) {
    it(`a document may have the type ${type}`, async () => {
      host.answer = publish({}, { 'content-type': type });
      expect((await fetchDocument(URL, host.network)).text).to.include(URL);
    });
  }

  for (const type of [
    'text/html',
    'text/plain',
    '',
    'text/json',
    'application/jsonp',
    'text/html; application/json',
  ]) {
    it(`a document with the type "${type}" is refused`, async () => {
      host.answer = publish({}, { 'content-type': type });
      expect(await failureOf(URL, host.network)).to.be.instanceOf(DocumentRefused);
    });
  }

  for (const status of [301, 302, 303, 307, 308]) {
    it(`CIM-04 a redirect (${status}) is not followed`, async () => {
      host.answer = answerWith(status, { location: `https://other.${DOMAIN}/elsewhere` });
      expect(await failureOf(URL, host.network)).to.be.instanceOf(DocumentRefused);
      expect(host.requests).to.deep.equal(['/client.json']);
    });
  }

  for (const status of [201, 204, 400, 401, 403, 404, 410]) {
    it(`CIM-17 a response with the status ${status} is refused`, async () => {
      host.answer = answerWith(status);
      expect(await failureOf(URL, host.network)).to.be.instanceOf(DocumentRefused);
    });
  }

  for (const status of [429, 500, 502, 503]) {
    it(`CIM-17 a response with the status ${status} counts as unreachable`, async () => {
      host.answer = answerWith(status);
      expect(await failureOf(URL, host.network)).to.be.instanceOf(DocumentUnreachable);
    });
  }

  it('CIM-05 a document has at most 5 kB, and the rest of a larger one is not read', async () => {
    host.answer = answerWith(200, {}, 'x'.repeat(5 * KILOBYTE));
    expect((await fetchDocument(URL, host.network)).text).to.have.length(5 * KILOBYTE);
    host.answer = answerWith(200, {}, 'x'.repeat(5 * KILOBYTE + 1));
    expect(await failureOf(URL, host.network)).to.be.instanceOf(DocumentRefused);
    const { promise: cut, resolve: onCut } = Promise.withResolvers<void>();
    host.answer = (request, response) => {
      request.socket.on('close', () => onCut());
      response.writeHead(200, { 'content-type': 'application/json' });
      const pour = () => {
        while (!response.destroyed && response.write('x'.repeat(KILOBYTE)));
      };
      response.on('drain', pour).on('error', () => {});
      pour();
    };
    expect(await failureOf(URL, host.network)).to.be.instanceOf(DocumentRefused);
    await cut;
  });

  it('CIM-05 the timeout of 2.5 s ends a fetch in name resolution, before the response and during it', async () => {
    const timeouts: number[] = [];
    const timeout = new AbortController();
    const waiting = new Set<string>();
    const slowName: Network = {
      ...host.network,
      resolve(_host, signal) {
        waiting.add('name');
        return once(signal, 'abort').then(() => []);
      },
    };
    host.answer = ({ url = '' }, response) => {
      if (url === '/silent') return void waiting.add(url);
      response.writeHead(200, { 'content-type': 'application/json' });
      const drip = setInterval(() => response.write(' '), 10);
      response.on('close', () => clearInterval(drip));
    };
    const onResponse = (message: unknown) =>
      void waiting.add((message as { request: ClientRequest }).request.path);
    subscribe(RESPONSE, onResponse);
    const { timeout: original } = AbortSignal;
    AbortSignal.timeout = (ms) => {
      timeouts.push(ms);
      return timeout.signal;
    };
    const fetches = [
      failureOf(`https://app.${DOMAIN}/silent`, host.network),
      failureOf(`https://app.${DOMAIN}/drip`, host.network),
      failureOf(`https://app.${DOMAIN}/never-asked`, slowName),
    ];
    AbortSignal.timeout = original;
    await until('every fetch to wait', () => waiting.size === fetches.length).finally(() =>
      unsubscribe(RESPONSE, onResponse),
    );
    timeout.abort(new DOMException('the timeout passed', 'TimeoutError'));
    for (const failure of await Promise.all(fetches))
      expect(failure).to.be.instanceOf(DocumentUnreachable);
    expect(host.requests).to.have.members(['/silent', '/drip']);
    expect(timeouts).to.deep.equal([2500, 2500, 2500]);
  });

  it('CIM-17 network, DNS and certificate errors count as unreachable', async () => {
    host.answer = hangUp;
    const { ca: _ours, ...usualTrust } = host.network;
    const failures = [
      await failureOf(URL, host.network),
      await failureOf('https://app.other.example/client.json', host.network),
      await failureOf(URL, usualTrust),
      await failureOf(URL, { ...host.network, resolve: async () => [] }),
      await failureOf(URL, {
        ...host.network,
        resolve: () => Promise.reject(new Error('queryA ENOTFOUND')),
      }),
    ];
    expect(host.requests).to.deep.equal(['/client.json']);
    await host.stop();
    failures.push(await failureOf(URL, host.network));
    for (const failure of failures) expect(failure).to.be.instanceOf(DocumentUnreachable);
  });

  it('CIM-02 the connection goes to the checked address, even if the name is rebound', async () => {
    const elsewhere = await startDocumentHost('127.0.0.1');
    try {
      const answers = [[ALLOWED_ADDRESS], ['127.0.0.1'], ['127.0.0.1']];
      const rebinding: Network = {
        ...host.network,
        resolve: async () => answers.shift() ?? ['127.0.0.1'],
      };
      await fetchDocument(URL, rebinding);
      expect(host.requests).to.deep.equal(['/client.json']);
      expect(answers).to.have.length(2);
      const port = elsewhere.network.port;
      expect(await failureOf(URL, { ...rebinding, port })).to.be.instanceOf(AddressRefused);
      expect(elsewhere.connections()).to.equal(0);
    } finally {
      await elsewhere.stop();
    }
  });
});
