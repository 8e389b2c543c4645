// MCP authorization: scope challenges.
import { expect } from 'chai';
import type { Level } from '../../src/permission-levels.ts';
import { createConnector } from '../support/management-api.ts';
import { openBrowser, type AuthorizeOptions } from '../support/browser.ts';
import { connectSdkV1, connectSdkV2, type SdkClient, type SdkOptions } from '../support/sdk.ts';
import { useSystem } from '../support/system.ts';

type Connect = (link: string, options: SdkOptions) => Promise<SdkClient>;
const v2 =
  (mode: 'legacy' | 'auto'): Connect =>
  (link, options) =>
    connectSdkV2(link, mode, options);

const SDKS: [name: string, connect: Connect, keeps: boolean][] = [
  // With a refresh token, SDK v1 refreshes on `insufficient_scope` and never asks the person.
  ['SDK v1, without a refresh token', connectSdkV1, false],
  ['SDK v2, 2025 revisions', v2('legacy'), true],
  ['SDK v2, revision 2026-07-28', v2('auto'), true],
];

const CONTACT = ['member_contact', { memberId: 'M0001' }] as const;
const PAYMENT = ['payment_details', { memberId: 'M0001' }] as const;

async function failureOf(call: Promise<unknown>): Promise<string> {
  return call.then(
    () => 'none',
    (error: unknown) => (error instanceof Error ? error.constructor.name : String(error)),
  );
}

describe('An SDK client that calls a tool above its level', () => {
  const system = useSystem();

  /** Connected at the level analytics; `authorizeOptions` applies to the next authorization. */
  async function connectLow(connect: Connect, ceiling: Level, first: AuthorizeOptions = {}) {
    const { link } = await createConnector(system(), { level: ceiling });
    const browser = openBrowser(system().origins);
    const asked: URL[] = [];
    const person = { authorizeOptions: { level: 'analytics', ...first } as AuthorizeOptions };
    const authorize = (url: URL | string) => {
      asked.push(new URL(url));
      return browser.authorize(url, person.authorizeOptions);
    };
    const client = await connect(link, { browser: { authorize }, method: 'none' });
    return { client, person, asked };
  }

  for (const [name, connect, keeps] of SDKS) {
    const stay = keeps ? {} : { stay: false };

    it(`the client asks the person for the required level, and the call succeeds if the person approves it (${name})`, async () => {
      const { client, person, asked } = await connectLow(connect, 'admin', stay);
      person.authorizeOptions = stay;
      expect(await failureOf(client.callTool(...CONTACT))).to.equal('UnauthorizedError');
      expect(asked.at(-1)?.searchParams.get('scope')?.split(' ')).to.include('admin');
      await client.finishSignIn();
      expect(await client.callTool(...CONTACT)).to.include.keys('email', 'phone');
      expect(asked).to.have.length(2);
      await client.close();
    });

    it(`the client keeps its level if the person does not agree (${name})`, async () => {
      const { client, asked } = await connectLow(connect, 'admin', stay);
      expect(await failureOf(client.callTool(...CONTACT))).to.equal('UnauthorizedError');
      await client.finishSignIn();
      expect(await client.callTool('club_overview')).to.have.property('members');
      expect(asked).to.have.length(2);
      await client.close();
    });

    it(`the client gets a tool error and asks nobody if the level exceeds that of the connect link (${name})`, async () => {
      const { client } = await connectLow(connect, 'admin', stay);
      for (let attempt = 0; attempt < 3; attempt += 1)
        expect(await client.callTool(...PAYMENT)).to.equal(undefined);
      expect(client.signIns()).to.equal(1);
      expect(await client.callTool('club_overview')).to.have.property('members');
      await client.close();
    });

    it(`RSV-04 the client gets a tool error and asks nobody if the person may not have the level (${name})`, async () => {
      const first = { ...stay, person: 'grace' } as const;
      const { client } = await connectLow(connect, 'full', first);
      for (let attempt = 0; attempt < 2; attempt += 1)
        expect(await client.callTool(...PAYMENT)).to.equal(undefined);
      expect(client.signIns()).to.equal(1);
      expect(await client.callTool('club_overview')).to.have.property('members');
      await client.close();
    });
  }

  it('SDK v1 with a refresh token does not loop, asks nobody and keeps its level', async () => {
    const { client, person } = await connectLow(connectSdkV1, 'admin');
    person.authorizeOptions = {};
    for (let attempt = 0; attempt < 2; attempt += 1)
      expect(await failureOf(client.callTool(...CONTACT))).to.equal('StreamableHTTPError');
    expect(client.signIns()).to.equal(1);
    expect(await client.callTool('club_overview')).to.have.property('members');
    await client.close();
  });
});
