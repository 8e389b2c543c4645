// One request of every kind, from people and clients with work in progress.
import { openBrowser, type Step } from '../browser.ts';
import { connect, obtainCode, redeem, registerClient } from '../connection.ts';
import { callTool } from '../mcp.ts';
import { authorizeUrl, discover, refresh, register } from '../oauth.ts';
import type { System } from '../system.ts';
import { revoke } from './load.ts';

export type Statuses = Record<keyof typeof KINDS, number>;

/** Whether a request reads or writes the store, or neither if its connector and grant are cached. */
const KINDS = {
  refresh: 'writes',
  exchange: 'writes',
  registration: 'writes',
  revocation: 'removes',
  authorization: 'writes',
  'consent page': 'reads',
  decision: 'writes',
  call: 'neither',
  metadata: 'neither',
  keys: 'neither',
  'resource metadata': 'neither',
  'metadata of the link': 'neither',
  alive: 'neither',
  ready: 'reads',
} as const;

type Kind = (typeof KINDS)[keyof typeof KINDS];

/** The expected statuses while only some kinds of store access work. */
export function statusesWhen(works: readonly Kind[]): Statuses {
  const all = Object.entries(KINDS).map(([request, kind]) => [
    request,
    kind === 'neither' || works.includes(kind) ? 200 : 503,
  ]);
  return Object.fromEntries(all);
}

export type EveryRequest = {
  /** Sends the requests one after another. */
  send(): Promise<Statuses>;
  /** Completes the flows in progress. Resolves to the statuses of the code exchanges. */
  finish(): Promise<number[]>;
};

export async function prepareEveryRequest(
  system: System,
  { link }: { link: string },
): Promise<EveryRequest> {
  const connection = await connect(system, { link });
  const leaving = await connect(system, { link });
  const code = await obtainCode(system, { link });
  const { server } = await discover(link);
  const client = await registerClient(server);
  const browser = openBrowser(system.origins);
  const { url, verifier } = authorizeUrl(server, client, { resource: link });
  const page = await browser.openConsent(url);
  const approve = () => browser.submit(page, { decision: 'approve' });
  const callOnce = () => callTool(link, connection.accessToken, 'club_overview');
  await callOnce();

  return {
    send: async () => ({
      refresh: (await refresh(server, connection.client, connection.refreshToken)).status,
      exchange: (await redeem(code)).status,
      registration: (await register(server, { redirect_uris: [client.redirectUri] })).status,
      revocation: (await revoke(leaving)) ? 200 : 503,
      authorization: statusOf(await browser.visit(url)),
      'consent page': statusOf(await browser.visit(page.url)),
      decision: statusOf(await approve()),
      call: (await callOnce()).status,
      metadata: await get(`${system.auth}/.well-known/oauth-authorization-server`),
      keys: await get(server.jwks_uri),
      'resource metadata': await get(`${system.resource}/.well-known/oauth-protected-resource`),
      'metadata of the link': await get(
        link.replace('/connect/', '/.well-known/oauth-protected-resource/connect/'),
      ),
      alive: await get(`${system.resource}/livez`),
      ready: await get(`${system.auth}/readyz`),
    }),
    async finish() {
      const step = await approve();
      const approved =
        step.kind === 'redirect'
          ? await redeem({ link, server, client, callback: step.url, verifier })
          : undefined;
      return [(await redeem(code)).status, approved?.status ?? statusOf(step)];
    },
  };
}

/** A redirect to the client means that the request succeeded. */
function statusOf(step: Step): number {
  return step.kind === 'page' ? step.status : 200;
}

async function get(url: string): Promise<number> {
  const response = await fetch(url);
  await response.text();
  return response.status;
}
