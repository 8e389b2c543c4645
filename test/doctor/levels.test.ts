import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import type { Finding } from '../../src/doctor/report.ts';
import type { Levels } from '../../src/permission-levels.ts';
import type { Upstream } from '../../src/settings/upstreams.ts';
import { type GoodDeployment, startGoodDeployment } from './good-deployment.ts';

const UPSTREAM = { id: 'default', setting: 'resourceServer.upstream' } as Upstream;

describe('doctor on permission levels', () => {
  let good: GoodDeployment;
  before(async function start() {
    this.timeout(40_000);
    good = await startGoodDeployment();
  });
  after(() => good?.stop());

  function check(levels: Levels, upstreams: Upstream[] = [], theme?: string): Promise<Finding[]> {
    const settings = { ...good.settings, levels: [...levels], upstreams };
    return good.examine({ settings: theme === undefined ? settings : { ...settings, theme } }, [
      'levels',
    ]);
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
    expect(texts?.what).to.equal('the levels operations have no title');
    const titled = await check([{ ...level, title: 'Operate' }], [UPSTREAM]);
    expect(titled.map(({ outcome }) => outcome)).to.deep.equal(['ok']);
  });

  it('texts of a theme about other levels are a warning', async () => {
    const theme = join(good.settings.dataDir, 'theme');
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
});
