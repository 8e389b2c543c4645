import { once } from 'node:events';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';

export type LoopbackServer = {
  /** Without a trailing slash. */
  origin: string;
  stop: () => Promise<void>;
};

/** `port` 0 means any. */
export async function listenOnLoopback(server: Server, port = 0): Promise<LoopbackServer> {
  await once(server.listen(port, '127.0.0.1'), 'listening');
  return {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async stop() {
      server.closeAllConnections();
      await once(server.close(), 'close');
    },
  };
}
