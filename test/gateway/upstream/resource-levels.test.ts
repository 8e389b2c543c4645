import { expect } from 'chai';
import type { Level } from '../../../src/permission-levels.ts';
import { LEVELS } from '../../support/levels.ts';
import { call } from '../../support/mcp.ts';
import {
  echo,
  event,
  json,
  resultFor,
  startScriptedUpstream,
  stream,
} from '../../support/upstream/scripted-upstream.ts';
import { useUpstream } from '../../support/upstream/system.ts';

const SETTINGS = {
  defaultLevel: 'operations',
  resources: [
    { uri: 'docs://handbook/*', level: 'analytics' },
    { uri: 'docs://handbook/{page}', level: 'analytics' },
    { uri: 'docs://handbook/salaries/*', level: 'admin' },
    { uri: 'docs://handbook/salaries/summary', level: 'analytics' },
    { uri: 'docs://handbook/salaries/list', level: 'full' },
    { uri: 'https://files.example/secret/*', level: 'full' },
    { uri: 'docs://*/draft', level: 'operations' },
  ],
  prompts: [
    { name: 'summarize_*', level: 'analytics' },
    { name: '*_payroll', level: 'admin' },
    { name: 'summarize_all', level: 'full' },
  ],
};

const RESOURCES: [uri: string, level: Level][] = [
  ['docs://handbook/start', 'analytics'],
  ['docs://handbook/a/b/c', 'analytics'],
  ['docs://handbook/', 'analytics'],
  ['docs://handbook/my%20page', 'analytics'],
  ['docs://handbook', 'operations'],
  ['docs://other', 'operations'],
  ['docs://handbook/salaries/2026', 'admin'],
  ['docs://handbook/salaries/summary', 'analytics'],
  ['docs://handbook/salaries/list', 'full'],
  ['docs://handbook/salaries/draft', 'admin'],
  ['docs://handbook/draft', 'operations'],
  ['https://files.example/secret/a', 'full'],
  ['https://files.example/open', 'operations'],
];

/** A server might take each for one of `docs://handbook/salaries/2026` or `https://files.example/secret/a`. */
const OTHER_SPELLINGS: [uri: unknown, level: Level][] = [
  ['DOCS://handbook/salaries/2026', 'admin'],
  ['docs://handbook/Salaries/2026', 'admin'],
  ['docs://handbook/%73alaries/2026', 'admin'],
  ['docs://handbook/%2573alaries/2026', 'admin'],
  ['docs://handbook/salaries%2F2026', 'admin'],
  ['docs://handbook/sal\u00ADaries/2026', 'admin'],
  ['docs://handbook/ｓalaries/2026', 'admin'],
  [' docs://handbook/salaries/2026', 'admin'],
  ['docs://handbook/%73alaries/%6Cist', 'full'],
  ['https://FILES.example/secret/a', 'full'],
  ['https://files.example:443/secret/a', 'full'],
  ['https:files.example/secret/a', 'full'],
  ['https:\\\\files.example\\secret\\a', 'full'],
  ['https://files.example/%53ECRET/a', 'full'],
  ['docs://handbook/sala\nries/2026', 'full'],
  ['docs://handbook/a\uD800', 'full'],
  [['docs://handbook/salaries/2026'], 'full'],
  [{ href: 'docs://handbook/start' }, 'full'],
  [`docs://handbook/${'a'.repeat(9000)}`, 'full'],
];

const DOTTED = [
  'docs://handbook/../other',
  'docs://handbook/./start',
  'docs://handbook/start/..',
  'docs://handbook/.',
  'docs://handbook/%2e%2e/other',
  'docs://handbook/.%2E/other',
  'docs://handbook/%252e%252e/other',
  'docs://handbook/..%2fother',
  'docs://handbook/..%5Cother',
  'docs://handbook/..\\other',
  'docs://handbook/..;a/other',
  'docs://handbook/..?a',
  'docs://handbook/..#a',
  'docs://handbook/\uFF0E\uFF0E/other',
  'docs:../other',
];

const PROMPTS: [name: unknown, level: Level][] = [
  ['summarize_orders', 'analytics'],
  ['write_payroll', 'admin'],
  ['summarize_payroll', 'admin'],
  ['summarize_all', 'full'],
  ['other', 'operations'],
  ['Summarize_All', 'full'],
  ['write_PAYROLL', 'admin'],
  ['write\u200B_payroll', 'admin'],
  ['summarize_a\u0000', 'full'],
  [['summarize_orders'], 'full'],
];

function ask(method: string, params: object = {}) {
  return { jsonrpc: '2.0', id: 1, method, params };
}

describe('Levels of resources and prompts', () => {
  const behind = useUpstream(startScriptedUpstream, { settings: SETTINGS });
  afterEach(() => behind().upstream.respondWith(echo));

  /** The level that a request needs, as callers of the two levels below it and of the level itself find out. */
  async function expectLevel(message: object, needed: Level): Promise<void> {
    const what = JSON.stringify(message).slice(0, 200);
    const { link, token } = await behind().connected('analytics', 'full');
    const before = behind().upstream.received.length;
    const { status, headers } = await call(link, token, message);
    if (needed === 'analytics') {
      expect(status, what).to.equal(200);
      expect(behind().upstream.received, what).to.have.length(before + 1);
      return;
    }
    expect(status, what).to.equal(403);
    expect(headers.get('www-authenticate'), what).to.include(`scope="${needed}"`);
    const below = LEVELS[LEVELS.indexOf(needed as (typeof LEVELS)[number]) - 1] as Level;
    const never = await behind().connected(below);
    const { rpc } = await call(never.link, never.token, message);
    expect(rpc?.error?.message, what).to.include(`needs the permission level ${needed}`);
    expect(behind().upstream.received, what).to.have.length(before);
    const enough = await behind().connected(needed);
    expect((await call(enough.link, enough.token, message)).rpc?.result, what).to.deep.equal({});
  }

  it('a resource has the level of its entry: an exact one wins, then the highest that matches, else the default level', async () => {
    for (const [uri, level] of RESOURCES) await expectLevel(ask('resources/read', { uri }), level);
  });

  it('UPS-27 another spelling of a URI never has a lower level than the URI that a server could take it for', async () => {
    for (const [uri, level] of OTHER_SPELLINGS)
      await expectLevel(ask('resources/read', { uri }), level);
  });

  it('UPS-27 a URI with dot segments, plain or percent-encoded, has the highest level', async () => {
    for (const uri of DOTTED) await expectLevel(ask('resources/read', { uri }), 'full');
    for (const uri of ['docs://handbook/a..b', 'docs://handbook/.hidden', 'docs://handbook/v1.2'])
      await expectLevel(ask('resources/read', { uri }), 'analytics');
  });

  it('UPS-27 a prompt has the level of its entry, and another spelling of its name never a lower one', async () => {
    for (const [name, level] of PROMPTS) await expectLevel(ask('prompts/get', { name }), level);
  });

  it('subscriptions have the level of the resource', async () => {
    for (const method of ['resources/subscribe', 'resources/unsubscribe'])
      for (const [uri, level] of [...RESOURCES.slice(0, 9), ...OTHER_SPELLINGS.slice(0, 2)])
        await expectLevel(ask(method, { uri }), level);
    const listen = (resourceSubscriptions: unknown, more: object = {}) =>
      ask('subscriptions/listen', { notifications: { resourceSubscriptions, ...more } });
    await expectLevel(listen(['docs://handbook/start']), 'analytics');
    await expectLevel(listen(['docs://handbook/start', 'docs://other']), 'operations');
    await expectLevel(listen(['docs://handbook/start'], { somethingNew: true }), 'operations');
    await expectLevel(listen(['docs://handbook/salaries/list', 'docs://handbook/start']), 'full');
    await expectLevel(listen('docs://handbook/start'), 'full');
    await expectLevel(
      listen(['docs://handbook/start'], { ResourceSubscriptions: ['docs://handbook/start'] }),
      'full',
    );
  });

  it('a completion has the level of the prompt or resource that it refers to', async () => {
    const complete = (ref: unknown) =>
      ask('completion/complete', { ref, argument: { name: 'page', value: 's' } });
    const prompt = (name: unknown) => complete({ type: 'ref/prompt', name });
    const resource = (uri: unknown) => complete({ type: 'ref/resource', uri });
    for (const [name, level] of PROMPTS) await expectLevel(prompt(name), level);
    for (const [uri, level] of RESOURCES) await expectLevel(resource(uri), level);
    await expectLevel(resource('docs://handbook/{page}'), 'analytics');
    await expectLevel(resource('docs://handbook/salaries/{year}'), 'admin');
    await expectLevel(complete(undefined), 'operations');
    await expectLevel(complete({ type: 'ref/other', name: 'summarize_all' }), 'full');
    await expectLevel(complete({ type: 'ref/prompt', name: 'summarize_a', Name: 'x' }), 'full');
  });

  it('params whose member name some parsers read as uri or ref are refused', async () => {
    const { link, token } = await behind().connected('full');
    const before = behind().upstream.received.length;
    for (const message of [
      ask('resources/subscribe', { uri: 'docs://handbook/start', Uri: 'docs://other' }),
      ask('resources/unsubscribe', { uri: 'docs://handbook/start', URI: 'docs://other' }),
      ask('completion/complete', { ref: {}, Ref: {} }),
    ])
      expect((await call(link, token, message)).status).to.equal(400);
    expect(behind().upstream.received).to.have.length(before);
  });

  it('lists show only what the link can open', async () => {
    const lists = {
      resources: [
        ...[...RESOURCES, ...OTHER_SPELLINGS].map(([uri, level]) => ({ uri, name: level })),
        ...DOTTED.map((uri) => ({ uri, name: 'full' })),
      ],
      resourceTemplates: [
        { uriTemplate: 'docs://handbook/{page}', name: 'analytics' },
        { uriTemplate: 'docs://handbook/salaries/{year}', name: 'admin' },
        { uriTemplate: 'file:///{path}', name: 'operations' },
        { name: 'operations' },
      ],
      prompts: PROMPTS.map(([name, level]) => ({ name, description: level })),
    };
    behind().upstream.respondWith((_req, res) => json(res, resultFor({ id: 1 }, lists)));
    for (const level of LEVELS) {
      const { link, token } = await behind().connected(level);
      const { rpc } = await call(link, token, ask('resources/list'));
      const isOpen = (needed: string) =>
        LEVELS.indexOf(needed as typeof level) <= LEVELS.indexOf(level);
      for (const list of ['resources', 'resourceTemplates'] as const)
        expect(rpc?.result?.[list], `${list} for ${level}`).to.deep.equal(
          lists[list].filter(({ name }) => isOpen(name)),
        );
      expect(rpc?.result?.['prompts'], `prompts for ${level}`).to.deep.equal(
        lists.prompts.filter(({ description }) => isOpen(description)),
      );
    }
  });

  it('a notification about a resource reaches those who may read it, and one about a list those who can open an entry', async () => {
    const notify = (method: string, params?: object) =>
      event({ jsonrpc: '2.0', method, ...(params ? { params } : {}) });
    const updated = (uri: string) => notify('notifications/resources/updated', { uri });
    behind().upstream.respondWith((_req, res) => {
      stream(
        res,
        updated('docs://handbook/start'),
        updated('docs://other'),
        updated('docs://handbook/salaries/2026'),
        updated('docs://handbook/../other'),
        notify('notifications/resources/list_changed'),
        notify('notifications/prompts/list_changed'),
      );
      res.end();
    });
    const seenBy = async (level: Level) => {
      const { link, token } = await behind().connected(level);
      const answer = await fetch(link, {
        headers: { authorization: `Bearer ${token}`, accept: 'text/event-stream' },
      });
      return [...(await answer.text()).matchAll(/"uri":"([^"]*)"|(\w+)\/list_changed/g)].map(
        ([, uri, list]) => uri ?? list,
      );
    };
    const lists = ['resources', 'prompts'];
    expect(await seenBy('analytics')).to.deep.equal(['docs://handbook/start', ...lists]);
    expect(await seenBy('admin')).to.deep.equal([
      'docs://handbook/start',
      'docs://other',
      'docs://handbook/salaries/2026',
      ...lists,
    ]);
  });
});
