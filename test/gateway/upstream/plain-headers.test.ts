import { expect } from 'chai';
import { decodeJwt } from 'jose';
import { addressOf, mint } from '../../links/minted-tokens/minting.ts';
import { rawRequest } from '../../support/raw-request.ts';
import { ALL_CLAIMS, useCallers } from '../../support/upstream/caller-system.ts';
import { PING } from '../../support/upstream/scripted-upstream.ts';

const NAMES = {
  'X-User': 'sub',
  'X-User-Name': 'name',
  'X-User-Email': 'email',
  'X-User-Groups': 'groups',
  'X-User-Issuer': 'issuer',
  'X-User-Subject': 'subject',
  'X-User-Provider': 'provider',
};

const CANARY = 'canary-3b7e';

describe('Plain headers with claims about the caller', () => {
  const { setup, connectAs, headersFor } = useCallers({
    caller: { claims: ALL_CLAIMS, headers: NAMES },
  });

  async function plainHeadersOf(claims: object, sub = 'subject-1') {
    const headers = await headersFor(await connectAs({ claims: { ...claims }, sub }));
    return Object.fromEntries(Object.entries(headers).filter(([name]) => name.startsWith('x-')));
  }

  it('each header has the claim that the settings name', async () => {
    const claims = {
      name: 'Ada Lovelace',
      email: 'ada@example.com',
      email_verified: true,
      groups: ['staff', 'north'],
    };
    const caller = await connectAs({ claims });
    expect(await headersFor(caller)).to.include({
      'x-user': decodeJwt(caller.token).sub,
      'x-user-name': 'Ada Lovelace',
      'x-user-email': 'ada@example.com',
      'x-user-groups': 'staff,north',
      'x-user-issuer': setup().providers.staff.issuer,
      'x-user-subject': 'subject-1',
      'x-user-provider': 'staff',
    });
  });

  it('UPS-25 what is not printable ASCII is percent-encoded, so that no value ends a header or a group', async () => {
    const headers = await plainHeadersOf(
      {
        name: 'Zoë\r\nX-Admin: 1 😀 100%',
        groups: ['a,b', 'c\r\nX-Admin: 1', 'd\u0000\u007f', ' e ', 'f\uD800', 'g%2Ch', 'ü'],
      },
      'sub\r\nX-Admin: 1',
    );
    expect(headers).to.include({
      'x-user-name': 'Zo%C3%AB X-Admin: 1 %F0%9F%98%80 100%25',
      'x-user-groups': 'a%2Cb,c%0D%0AX-Admin: 1,d%00%7F,%20e%20,g%252Ch,%C3%BC',
      'x-user-subject': 'sub%0D%0AX-Admin: 1',
    });
    expect(headers).to.not.have.property('x-admin');
    expect(String(headers['x-user-groups']).split(',').map(decodeURIComponent)).to.deep.equal([
      'a,b',
      'c\r\nX-Admin: 1',
      'd\u0000\u007f',
      ' e ',
      'g%2Ch',
      'ü',
    ]);
  });

  it('UPS-25 all plain headers together stay below 8 kB, and groups that do not fit are left out', async () => {
    const groups = Array.from({ length: 10_000 }, (_, n) => `${n}-${'ü'.repeat(18)}`);
    const headers = await plainHeadersOf({ name: '語'.repeat(200), groups }, 'ü'.repeat(400));
    const sizes = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`.length);
    const size = sizes.reduce((sum, each) => sum + each, 0);
    expect(size).to.be.within(7900, 7999);
    expect(headers).to.include.all.keys('x-user-name', 'x-user-subject');
    const sent = String(headers['x-user-groups']).split(',').map(decodeURIComponent);
    expect(sent).to.deep.equal(groups.slice(0, sent.length));
    expect(sent.length).to.be.above(10);
  });

  /** Every spelling that a server could read as the header. */
  function spellings(name: string): string[] {
    const underscored = name.replaceAll('-', '_');
    const mixed = name.replace('-', '_');
    return [name, underscored, mixed].flatMap((each) => [
      each,
      each.toLowerCase(),
      each.toUpperCase(),
    ]);
  }

  async function sendForged(link: string, token: string): Promise<number> {
    const { host, pathname: path } = new URL(link);
    const forged = [...Object.keys(NAMES), 'Gatehouse-Caller'].flatMap(spellings);
    const { status } = await rawRequest(link, {
      method: 'POST',
      path,
      headers: {
        host,
        authorization: `Bearer ${token}`,
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        ...Object.fromEntries(forged.map((name) => [name, CANARY])),
      },
      chunks: [JSON.stringify(PING)],
    });
    return status;
  }

  it('UPS-26 a header of these names that a client sends never arrives, in no spelling, also where the claim is missing', async () => {
    const nameless = await connectAs({ claims: { groups: [] }, sub: 'nameless' });
    const { token } = await mint(setup().system, { level: 'analytics' });
    for (const caller of [nameless, { link: addressOf(setup().system), token }]) {
      const before = setup().upstream.received.length;
      expect(await sendForged(caller.link, caller.token)).to.equal(200);
      expect(setup().upstream.received).to.have.length(before + 1);
      expect(setup().upstream.wire()).to.not.include(CANARY);
      expect(setup().upstream.received.at(-1)?.headers).to.not.have.any.keys(
        'x-user-name',
        'x-user-email',
        'x-user-groups',
      );
    }
    expect(setup().upstream.received.at(-1)?.headers['x-user']).to.match(/^minted:/);
  });

  it('Gatehouse’s own requests have the header with sub', () => {
    expect(setup().upstream.discoveries[0]?.headers).to.include({ 'x-user': 'gatehouse' });
  });
});
