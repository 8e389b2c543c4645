import { once } from 'node:events';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { connect } from 'node:tls';
import { expect } from 'chai';
import { tlsFault } from '../src/tls-errors.ts';
import { OTHER_NAME, TLS_FAULTS } from './support/tls-faults.ts';

async function failureOf(
  open: () => Server,
  request: (port: number) => Promise<unknown>,
): Promise<unknown> {
  const server = open();
  await once(server.listen(0, 'localhost'), 'listening');
  const failure = await request((server.address() as AddressInfo).port).then(
    () => undefined,
    (error: unknown) => error,
  );
  server.close();
  return failure;
}

describe('Explanations of TLS errors', () => {
  for (const { fault, open, what, remedy } of TLS_FAULTS) {
    it(`${fault} is explained in words, with what to do`, async () => {
      const found = tlsFault(await failureOf(open, (port) => fetch(`https://localhost:${port}`)));
      expect(found?.what)
        .to.match(what)
        .and.not.match(/SSL routines|EPROTO|ERR_/);
      expect(found?.remedy).to.match(remedy);
    });
  }

  it('a certificate for another name is explained with the names that it has', async () => {
    const { authority: ca, open } = OTHER_NAME;
    const failure = await failureOf(open, async (port) => {
      const socket = connect({ host: 'localhost', port, ca, servername: 'localhost' });
      await once(socket, 'secureConnect').finally(() => socket.destroy());
    });
    expect(tlsFault(failure)?.what).to.match(/for another name \(other\.example\.com\)/);
  });

  it('a connection that is reset during the handshake is explained', async () => {
    const open = () =>
      createServer((socket) => socket.once('data', () => socket.resetAndDestroy()));
    const failure = await failureOf(open, async (port) => {
      const socket = connect({ host: 'localhost', port, servername: 'localhost' });
      await once(socket, 'secureConnect').finally(() => socket.destroy());
    });
    expect(tlsFault(failure, true)?.what).to.match(/during the TLS handshake/);
  });

  it('an error that is not about TLS is not explained as one', async () => {
    for (const code of ['ECONNREFUSED', 'ENOTFOUND', 'ECONNRESET', 'ETIMEDOUT'])
      expect(tlsFault(Object.assign(new Error(code), { code }))).to.equal(undefined);
    expect(tlsFault(undefined)).to.equal(undefined);
  });
});
