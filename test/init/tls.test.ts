import { once } from 'node:events';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { expect } from 'chai';
import { probeIssuer, readTools } from '../../src/init/probes.ts';
import { makeCertificate } from '../oauth/metadata-documents/certificate.ts';

describe('init and servers whose certificate is not trusted', () => {
  it('init explains the certificate of an identity provider and of an MCP server, and names NODE_EXTRA_CA_CERTS', async () => {
    const { cert, key } = makeCertificate('localhost', { from: -1, until: 60 });
    const server = createServer({ cert, key }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const url = `https://localhost:${(server.address() as AddressInfo).port}`;
    for (const { problem, remedy } of [
      await probeIssuer(url),
      await readTools(`${url}/mcp`, url, { headers: [], values: {}, problems: [] }),
    ]) {
      expect(problem).to.include('self-signed certificate').and.not.include('DEPTH_ZERO');
      expect(remedy).to.include('NODE_EXTRA_CA_CERTS');
    }
    server.closeAllConnections();
    server.close();
  });
});
