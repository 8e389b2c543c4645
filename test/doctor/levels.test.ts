import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import type { Finding } from '../../src/doctor/report.ts';
import { managementClient } from '../../src/management/api/client.ts';
import { DEFAULT_LEVELS, type Levels } from '../../src/permission-levels.ts';
import type { Upstream } from '../../src/settings/upstreams.ts';
import { loadSettings } from '../../src/settings/load.ts';
import {
  KEY,
  type ManagementHost,
  openManagementHost,
  request,
} from '../management/management-host.ts';
import { examineSettings } from './fault.ts';

const UPSTREAM = { id: 'default', setting: 'resourceServer.upstream' } as Upstream;

describe('doctor on permission levels', () => {
  let host: ManagementHost;
  before(async () => {
    host = await openManagementHost();
    const body = { name: 'Ops', level: 'operations' };
    expect((await request(host, 'POST', '/api/v1/connectors', { body })).status).to.equal(201);
  });
  after(() => host.close());

  async function check(
    levels: Levels,
    upstreams: Upstream[] = [],
    theme?: string,
    requireDpop?: string,
  ): Promise<Finding[]> {
    const settings = loadSettings({ GATEHOUSE_SECRET: 'a root secret of more than 32 characters' });
    const authorization = { ...settings.authorization, ...(requireDpop ? { requireDpop } : {}) };
    const changed = { ...settings, levels: [...levels], upstreams, authorization };
    return examineSettings(theme === undefined ? changed : { ...changed, theme }, ['levels'], {
      openClient: () => managementClient({ url: host.url, key: KEY }),
    });
  }

  it('connectors and minted tokens whose level is not in the settings are a warning that names them', async () => {
    const [connectors, tokens, ...others] = await check([{ id: 'analytics', recorded: false }]);
    expect([connectors?.outcome, connectors?.what]).to.deep.equal([
      'warning',
      '1 connector has a level that is not in the settings: "Ops" (operations)',
    ]);
    expect(connectors?.remedy).to.contain('(it has analytics)');
    expect([tokens, ...others]).to.deep.equal([undefined]);
  });

  it('levels without a title behind an MCP server are a note, and with one pass', async () => {
    const level = { id: 'operations', recorded: false };
    const [texts, records] = await check([level], [UPSTREAM]);
    expect([records?.outcome, texts?.outcome]).to.deep.equal(['ok', 'note']);
    expect(texts?.what).to.equal('these levels have no title: operations');
    const titled = await check([{ ...level, title: 'Operate' }], [UPSTREAM]);
    expect(titled.map(({ outcome }) => outcome)).to.deep.equal(['ok']);
  });

  it('the levels of the sample behind an MCP server are a note that suggests read, write and full', async () => {
    const [texts, ...others] = (await check(DEFAULT_LEVELS, [UPSTREAM])).filter(
      ({ outcome }) => outcome !== 'ok',
    );
    expect(others).to.deep.equal([]);
    expect(texts).to.include({ outcome: 'note', about: 'levels' });
    expect(texts?.what).to.include('analytics, operations, admin, full');
    expect(texts?.remedy).to.include('set levels to read, write, full');
    const titled = DEFAULT_LEVELS.map((level) => ({ ...level, title: level.id }));
    for (const [levels, upstreams] of [
      [DEFAULT_LEVELS, []],
      [titled, [UPSTREAM]],
    ] as const)
      expect((await check(levels, [...upstreams])).map(({ outcome }) => outcome)).to.deep.equal([
        'ok',
      ]);
  });

  it('texts of a theme about other levels are a warning', async () => {
    const theme = join(host.directory, 'theme');
    mkdirSync(join(theme, 'messages'), { recursive: true });
    writeFileSync(join(theme, 'messages/en.yaml'), 'levels: { gone: { title: Gone } }');
    const findings = await check(
      [{ id: 'operations', title: 'Operate', recorded: false }],
      [UPSTREAM],
      theme,
    );
    expect(findings.map(({ outcome }) => outcome)).to.have.members(['ok', 'warning']);
    expect(findings.find(({ outcome }) => outcome === 'warning')?.what).to.match(
      /not in the settings: gone$/,
    );
  });

  it('texts that a theme has in some languages only are a warning that says what others read', async () => {
    const theme = join(host.directory, 'partial-theme');
    mkdirSync(join(theme, 'messages'), { recursive: true });
    const texts = 'levels: { operations: { title: Catalog, sees: Copies } }';
    for (const language of ['en', 'de'])
      writeFileSync(join(theme, `messages/${language}.yaml`), texts);
    const warned = async (upstreams: Upstream[], levels: Levels = DEFAULT_LEVELS) =>
      (await check(levels, upstreams, theme))
        .filter(({ about, outcome }) => about === theme && outcome === 'warning')
        .map(({ what, why }) => [what, why]);
    const what =
      'the theme has these texts in some languages only: levels.operations.title, levels.operations.sees';
    const languages = 'in es, fr, ja, pt, people read the text of';
    expect(await warned([])).to.deep.equal([[what, `${languages} the sample`]]);
    expect(await warned([UPSTREAM])).to.deep.equal([[what, `${languages} another language`]]);
    const translated = [{ id: 'operations', title: 'Catalog', sees: 'Copies', recorded: false }];
    expect(await warned([UPSTREAM], translated)).to.deep.equal([]);
  });

  it('minted tokens of a level that requires DPoP, and DPoP at every level, are notes', async () => {
    const body = { name: 'Nightly', level: 'operations' };
    expect((await request(host, 'POST', '/api/v1/tokens', { body })).status).to.equal(201);
    const about = async (requireDpop: string) =>
      (await check(DEFAULT_LEVELS, [], undefined, requireDpop))
        .filter(({ about: setting }) => setting === 'authorization.requireDpop')
        .map(({ outcome, what }) => [outcome, what]);
    expect(await about('admin')).to.deep.equal([['ok', 'levels from admin require DPoP']]);
    expect((await about('analytics')).toSorted()).to.deep.equal([
      ['note', '1 minted token has a level that requires DPoP: "Nightly" (operations)'],
      ['note', 'every level requires DPoP'],
    ]);
  });
});
