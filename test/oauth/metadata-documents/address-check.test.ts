import { once } from 'node:events';
import { createServer, type AddressInfo, type Server } from 'node:net';
import { expect } from 'chai';
import { INTERNET, type Network } from '../../../src/http/guarded-request.ts';
import {
  AddressRefused,
  DocumentUnreachable,
  requireAddressGuard,
} from '../../../src/oauth/engine/guarded-fetch.ts';
import { DOMAIN, failureOf, startDocumentHost } from './document-host.ts';

const URL = `https://app.${DOMAIN}/client.json`;

describe('metadata documents on non-public addresses', () => {
  let connections = 0;
  let listener: Server;
  let network: Network;
  before(async () => {
    listener = createServer((socket) => {
      connections += 1;
      socket.on('error', () => {}).destroy();
    });
    await once(listener.listen(0, '127.0.0.1'), 'listening');
    network = { ...INTERNET, port: (listener.address() as AddressInfo).port };
  });
  after(() => listener.close());

  const resolvingTo = (...addresses: string[]): Network => ({
    ...network,
    resolve: async () => addresses,
  });

  it('CIM-02 a name that resolves to a non-public address causes no connection', async () => {
    const before = connections;
    for (const addresses of [
      ['127.0.0.1'],
      ['::ffff:127.0.0.1'],
      ['::ffff:7f00:1'],
      ['0.0.0.0'],
      ['8.8.8.8', '127.0.0.1'],
      ['127.0.0.1', '2606:4700::1111'],
      ['64:ff9b::127.0.0.1'],
      ['10.0.0.1'],
      ['169.254.169.254'],
      ['::1'],
      ['not an address'],
    ]) {
      expect(await failureOf(URL, resolvingTo(...addresses)), addresses.join()).to.be.instanceOf(
        AddressRefused,
      );
    }
    expect(connections).to.equal(before);
  });

  it('without the check, the same name causes a connection', async () => {
    const before = connections;
    const unguarded = { ...resolvingTo('127.0.0.1'), isAllowed: () => true };
    expect(await failureOf(URL, unguarded)).to.be.instanceOf(DocumentUnreachable);
    expect(connections).to.equal(before + 1);
  });

  it('a literal address as the host is refused', async () => {
    const before = connections;
    for (const url of [
      'https://127.0.0.1/x',
      'https://2130706433/x',
      'https://[::ffff:127.0.0.1]/x',
    ]) {
      expect(await failureOf(url, resolvingTo('8.8.8.8')), url).to.be.instanceOf(AddressRefused);
    }
    expect(connections).to.equal(before);
  });
});

describe('the startup check of document fetching', () => {
  it('the startup check passes without a connection', async () => {
    const host = await startDocumentHost('127.0.0.1');
    try {
      await requireAddressGuard({ ...INTERNET, port: host.network.port });
      expect(host.connections()).to.equal(0);
    } finally {
      await host.stop();
    }
  });

  it('CIM-03 the startup check fails if loopback addresses are allowed', async () => {
    const failure = await requireAddressGuard({
      ...INTERNET,
      isAllowed: () => true,
      port: 1,
    }).catch((error: Error) => error.message);
    expect(failure).to.match(/could be fetched from this computer/);
  });
});
