import { expect } from 'chai';
import type { Key } from '../../src/management/resources/key.ts';
import {
  ACCESS_TOKEN_LIFETIME,
  KEY,
  type ManagementHost,
  openManagementHost,
  request,
} from './management-host.ts';

const KEYS = '/api/v1/keys';
const ROTATE = `${KEYS}/rotate`;
const WAITS = 600;

describe('signing keys over the management API', () => {
  let host: ManagementHost;
  beforeEach(async () => {
    host = await openManagementHost();
  });
  afterEach(() => host.close());

  async function list(): Promise<Key[]> {
    const { status, body } = await request(host, 'GET', KEYS);
    expect(status).to.equal(200);
    expect(body).to.have.all.keys('items');
    return body['items'] as Key[];
  }

  async function rotate(body?: unknown): Promise<Key[]> {
    const answer = await request(host, 'POST', ROTATE, { body });
    expect(answer.status, JSON.stringify(answer.body)).to.equal(201);
    expect(answer.headers.get('cache-control')).to.equal('no-store');
    return answer.body['items'] as Key[];
  }

  async function recorded(): Promise<unknown[]> {
    const { body } = await request(host, 'GET', '/api/v1/audit?order=oldest');
    return body['items'] as unknown[];
  }

  const secondsFromNow = (time = '') => Date.parse(time) / 1000 - host.now();
  const states = (keys: Key[]) => keys.map(({ state }) => state);

  it('the first key signs, and the API shows no private member', async () => {
    const [key, ...others] = await list();
    expect(others).to.deep.equal([]);
    expect(key).to.have.all.keys('id', 'state', 'signsFrom');
    expect(key?.id).to.match(/^[\w-]{43}$/);
    expect(key?.state).to.equal('signing');
    expect(await list()).to.deep.equal([key]);
  });

  it('a rotation returns the resulting list', async () => {
    const [old] = await list();
    const keys = await rotate();
    expect(await list()).to.deep.equal(keys);
    const [next, signing] = keys;
    expect(states(keys)).to.deep.equal(['next', 'signing']);
    expect(next).to.have.all.keys('id', 'state', 'signsFrom');
    expect(secondsFromNow(next?.signsFrom)).to.equal(WAITS);
    expect(signing).to.deep.include(old);
    const goes = secondsFromNow(signing?.publishedUntil);
    expect(goes).to.equal(WAITS + ACCESS_TOKEN_LIFETIME + WAITS);
  });

  it('the states of keys change with time', async () => {
    const [next, old] = await rotate();
    host.clock.ahead = WAITS + 1;
    const keys = await list();
    expect(keys.map(({ id, state }) => [id, state])).to.deep.equal([
      [next?.id, 'signing'],
      [old?.id, 'retiring'],
    ]);
    host.clock.ahead = WAITS + ACCESS_TOKEN_LIFETIME + WAITS + 1;
    expect((await list()).map(({ id }) => id)).to.deep.equal([next?.id]);
  });

  it('a rotation in progress refuses another one and names the time the new key signs', async () => {
    const keys = await rotate({});
    host.clock.ahead = WAITS - 30;
    const { status, body } = await request(host, 'POST', ROTATE);
    expect(status).to.equal(409);
    expect(body).to.include({ error: 'rotation_pending' });
    expect(body['error_description'])
      .to.include(`will sign from ${keys[0]?.signsFrom}`)
      .and.include('immediately');
    expect(await list()).to.deep.equal(keys);
    expect(await recorded()).to.have.length(1);
    host.clock.ahead = WAITS + 1;
    expect(states(await rotate())).to.deep.equal(['next', 'signing', 'retiring']);
  });

  it('a rotation at once leaves one new signing key even during another rotation', async () => {
    const before = await rotate({ atOnce: false });
    const [key, ...others] = await rotate({ atOnce: true });
    expect(others).to.deep.equal([]);
    expect(key).to.have.all.keys('id', 'state', 'signsFrom').and.include({ state: 'signing' });
    expect(before.map(({ id }) => id)).to.not.include(key?.id);
    expect(secondsFromNow(key?.signsFrom)).to.equal(0);
  });

  it('rotations are recorded with the reason at_once if they were at once', async () => {
    await rotate();
    await rotate({ atOnce: true });
    const [first, second] = await recorded();
    expect(first).to.include({ event: 'signing_key_rotated', outcome: 'done' });
    expect(first).to.not.have.property('reason');
    expect(second).to.include({ event: 'signing_key_rotated', reason: 'at_once' });
  });

  it('an invalid rotation is refused and changes nothing', async () => {
    const before = await list();
    for (const [status, body] of [
      [400, { atOnce: 'yes' }],
      [400, { atOnce: null }],
      [400, { at_once: true }],
      [400, []],
      [400, 'null'],
      [400, '{'],
    ] as const) {
      const answer = await request(host, 'POST', ROTATE, { body });
      expect(answer.status, JSON.stringify(body)).to.equal(status);
      expect(answer.body['error']).to.equal('invalid_request');
    }
    const headers = { 'Content-Type': 'application/x-www-form-urlencoded' };
    const form = await request(host, 'POST', ROTATE, { body: 'atOnce=true', headers });
    expect(form.status).to.equal(415);
    const chunked = await fetch(`${host.url}${ROTATE}`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${KEY}`, 'Content-Type': 'application/json' },
      body: new Blob(['{"atOnce":7}']).stream(),
      duplex: 'half',
    });
    expect(chunked.status).to.equal(400);
    expect(await list()).to.deep.equal(before);
    expect(await recorded()).to.deep.equal([]);
  });
});
