// A Gatehouse in front of an MCP server where people have accounts of their own, and people who have connected them.
import { expect } from 'chai';
import {
  type Browser,
  openBrowser,
  type Page,
  type Person,
  requireExternalRedirect,
  requirePage,
  type Step,
} from '../browser.ts';
import { openConsent } from '../connection.ts';
import { createConnector } from '../management-api.ts';
import { call, type RpcResponse } from '../mcp.ts';
import { startSystem, type System, type SystemOptions } from '../system.ts';
import { type ProtectedServer, startProtectedServer } from './protected-server.ts';

export const UPSTREAM = 'tools';
export const WHOAMI = {
  jsonrpc: '2.0',
  id: 1,
  method: 'tools/call',
  params: { name: 'whoami', arguments: {} },
};

export type PersonalUpstream = {
  system: () => System;
  service: () => ProtectedServer;
  link: () => string;
  connectorId: () => string;
  /** Approves the app, and answers the page that asks for the account. */
  connectAs(
    person: Person,
    complete?: (asked: Page, browser: Browser) => Promise<Step>,
  ): Promise<Connected>;
};

export type Connected = { token: string; browser: Browser; call(): Promise<RpcResponse> };

/** The text of the tool result. */
export function textOf({ rpc }: RpcResponse): string | undefined {
  return rpc?.result?.content?.[0]?.text;
}

export function settingsFor(
  url: string,
  credential: object = { kind: 'oauth' },
  more: object = {},
) {
  const upstream = { id: UPSTREAM, url, name: 'Notes', defaultLevel: 'analytics', credential };
  return { resourceServer: { upstreams: [{ ...upstream, ...more }] } };
}

/** One system and service for the surrounding `describe`. */
export function usePersonalUpstream(
  credential?: object,
  { upstream, ...options }: Omit<SystemOptions, 'file'> & { upstream?: object } = {},
): PersonalUpstream {
  let service: ProtectedServer | undefined;
  let system: System | undefined;
  let link = '';
  let id = '';
  before(async function start() {
    service = await startProtectedServer();
    system = await startSystem({
      ...options,
      file: settingsFor(service.url, credential, upstream),
    });
    ({ link, id } = await createConnector(system, { name: 'Own notes' }));
  });
  after(async () => {
    await system?.stop();
    await service?.close();
  });
  const running = <T>(value: T | undefined): T => {
    if (value === undefined) throw new Error('the system runs only during tests');
    return value;
  };
  const use: PersonalUpstream = {
    system: () => running(system),
    service: () => running(service),
    link: () => link,
    connectorId: () => id,
    connectAs: (person, complete) =>
      connectPerson({ system: use.system(), service: use.service(), link, person, complete }),
  };
  return use;
}

export type PersonOptions = {
  system: System;
  service: ProtectedServer;
  link: string;
  person: Person;
  complete?: ((asked: Page, browser: Browser) => Promise<Step>) | undefined;
};

/** Approves the app, and answers the page that asks for the account. */
export async function connectPerson({
  system,
  service,
  link,
  person,
  complete = continueToService,
}: PersonOptions): Promise<Connected> {
  const browser = openBrowser([...system.origins, service.origin]);
  const opened = await openConsent(system, { link }, { as: { browser }, person });
  const next = await opened.decide({ decision: 'approve' });
  const asks = next.kind === 'page';
  const step = asks ? await complete(next, browser) : next;
  const { body } = await opened.redeem(requireExternalRedirect(step), { resource: link });
  const token = String(body.access_token);
  return { token, browser, call: () => call(link, token, WHOAMI) };
}

export async function continueToService(asked: Page, browser: Browser): Promise<Step> {
  expect(asked.html).to.contain('Connect your');
  return browser.submit(asked, { credential: 'now' });
}

export const later = (asked: Page, browser: Browser) =>
  browser.submit(asked, { credential: 'later' });

/** The page of the address in an answer. */
export async function openAddress(answer: RpcResponse, browser: Browser): Promise<Page> {
  const [address = ''] = /http:\S+\/credentials\/\S+/.exec(textOf(answer) ?? '') ?? [];
  return requirePage(await browser.visit(address));
}
