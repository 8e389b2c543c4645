// One request of every kind, from people and clients with work in progress.
import type { Step } from '../browser.ts';
import { connect, type Connection, obtainCode, redeem, registerClient } from '../connection.ts';
import { callTool } from '../mcp.ts';
import { authorizeUrl, refresh, register } from '../oauth.ts';
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
  /** Sends the requests at once, and then the decision, which ends the consent page. */
  send(): Promise<Statuses>;
  /** Sends all except the decision. */
  sendAtOnce(): Promise<Omit<Statuses, 'decision'>>;
  /** Completes the flows in progress. Resolves to the statuses of two code exchanges and of the revocation. */
  finish(): Promise<number[]>;
  /** The connection that `finish` revokes. */
  leaving: Connection;
};

export async function prepareEveryRequest(
  system: System,
  { link }: { link: string },
): Promise<EveryRequest> {
  const connection = await connect(system, { link });
  const { server, browser } = connection;
  const leaving = await connect(system, { link }, { as: { browser } });
  const code = await obtainCode(system, { link }, { as: { browser } });
  const client = await registerClient(server);
  const { url, verifier } = authorizeUrl(server, client, { resource: link });
  const page = await browser.openConsent(url);
  const approve = () => browser.submit(page, { decision: 'approve' });
  const callOnce = () => callTool(link, connection.accessToken, 'club_overview');
  await callOnce();

  const sendAtOnce = async () => {
    const requests: Record<Exclude<keyof Statuses, 'decision'>, () => Promise<number>> = {
      refresh: async () =>
        (await refresh(server, connection.client, connection.refreshToken)).status,
      exchange: async () => (await redeem(code)).status,
      registration: async () =>
        (await register(server, { redirect_uris: [client.redirectUri] })).status,
      revocation: async () => ((await revoke(leaving)) ? 200 : 503),
      authorization: async () => statusOf(await browser.visit(url)),
      'consent page': async () => statusOf(await browser.visit(page.url)),
      call: async () => (await callOnce()).status,
      metadata: () => get(`${system.auth}/.well-known/oauth-authorization-server`),
      keys: () => get(server.jwks_uri),
      'resource metadata': () => get(`${system.resource}/.well-known/oauth-protected-resource`),
      'metadata of the link': () =>
        get(link.replace('/connect/', '/.well-known/oauth-protected-resource/connect/')),
      alive: () => get(`${system.resource}/livez`),
      ready: () => get(`${system.auth}/readyz`),
    };
    const sent = Object.entries(requests).map(async ([kind, send]) => [kind, await send()]);
    return Object.fromEntries(await Promise.all(sent));
  };

  return {
    send: async () => ({ ...(await sendAtOnce()), decision: statusOf(await approve()) }),
    sendAtOnce,
    async finish() {
      const step = await approve();
      const approved =
        step.kind === 'redirect'
          ? await redeem({ link, server, client, callback: step.url, verifier })
          : undefined;
      const exchanged = [(await redeem(code)).status, approved?.status ?? statusOf(step)];
      return [...exchanged, (await revoke(leaving)) ? 200 : 503];
    },
    leaving,
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
