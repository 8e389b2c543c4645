// The $BROWSER of a client that runs as a child process: signs in as Ada, approves, and follows the redirect to the client.
import { createServer } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { type AuthorizeOptions, openBrowser } from './browser.ts';
import { until } from './until.ts';

export type UrlOpener = {
  /** Variables of the client, which must have no desktop variables, so that it uses $BROWSER. */
  environment: Record<string, string>;
  /** How the next authorization is decided; those after it send the page's defaults. */
  next: AuthorizeOptions;
  close(): Promise<void>;
};

export async function startUrlOpener(origins: readonly string[]): Promise<UrlOpener> {
  const server = createServer(async (req, res) => {
    const url = await text(req);
    res.end();
    const options = opener.next;
    opener.next = {};
    const callback = await openBrowser(origins).authorize(url, options);
    await follow(callback);
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const opener: UrlOpener = {
    environment: {
      // Clients split it at spaces, so the path is relative to the working directory.
      BROWSER: 'node test/support/open-url.ts',
      TEST_BROWSER: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    },
    next: {},
    async close() {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
  return opener;
}

/** Clients may open the URL before they listen for the redirect. */
async function follow(callback: URL): Promise<void> {
  const response = await until('the client to listen', () =>
    fetch(callback).catch(() => undefined),
  );
  if (!response.ok) throw new Error(`the client's own page answered ${response.status}`);
}
