// `gatehouse settings check`.
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { gatehouse, gatehouseProgram } from '../management/command-line.ts';
import {
  DEVELOPMENT,
  PRODUCTION,
  SECRET,
  settingsFile,
  temporaryDirectory,
} from './settings-file.ts';

const ENVIRONMENT = { NODE_ENV: 'production', GATEHOUSE_SECRET: SECRET };

function check(content: unknown, environment: Record<string, string> = ENVIRONMENT) {
  return gatehouse(['settings', 'check', settingsFile(content), '--json'], environment);
}

async function issuesOf(content: unknown, environment?: Record<string, string>) {
  const { code, stdout } = await check(content, environment);
  return { code, ...(JSON.parse(stdout) as { valid: boolean; issues: { setting: string }[] }) };
}

describe('The check of a settings file', () => {
  it('the check of valid settings needs neither network nor store, and ends with 0', async () => {
    const { code, stdout, stderr } = await gatehouseProgram(
      ['settings', 'check', settingsFile(PRODUCTION)],
      { ...ENVIRONMENT, HTTPS_PROXY: 'http://127.0.0.1:9' },
    );
    expect({ code, stdout, stderr }).to.deep.equal({
      code: 0,
      stdout: 'The settings are valid for production.\n',
      stderr: '',
    });
  });

  it('the check writes no secret and no store, although the first start would', async () => {
    const dataDir = join(temporaryDirectory(), 'data');
    const { code, valid } = await issuesOf(DEVELOPMENT, { GATEHOUSE_DATA_DIR: dataDir });
    expect({ code, valid }).to.deep.equal({ code: 0, valid: true });
    expect(existsSync(dataDir)).to.equal(false);
  });

  it('the check names every issue, and ends with 2', async () => {
    const { authUrl: _, ...file } = PRODUCTION;
    const { code, valid, issues } = await issuesOf({ ...file, productNam: 'Gatehouse' });
    expect({ code, valid }).to.deep.equal({ code: 2, valid: false });
    expect(issues.map(({ setting }) => setting)).to.have.members(['authUrl', 'productNam']);
    const { code: ofText, stdout } = await gatehouse(
      ['settings', 'check', settingsFile(file)],
      ENVIRONMENT,
    );
    expect(ofText).to.equal(2);
    expect(stdout).to.match(/^The settings have an error:\n {2}authUrl: given nothing; expected /);
  });

  it('the check of a file that cannot be read ends with 2', async () => {
    const file = join(temporaryDirectory(), 'missing.yaml');
    const { code, stdout } = await gatehouse(['settings', 'check', file], ENVIRONMENT);
    expect(code).to.equal(2);
    expect(stdout).to.include('ENOENT');
  });

  it('the check refuses every unknown variable, other than those of Kubernetes services', async () => {
    const { code, issues } = await issuesOf(PRODUCTION, {
      ...ENVIRONMENT,
      GATEHOUSE_TIMEZONE: 'UTC',
      GATEHOUSE_AUTH_PORT: '4000',
      GATEHOUSE_LOGLEVEL: 'debug',
      GATEHOUSE_PORT: 'tcp://10.0.0.1:80',
      GATEHOUSE_PORT_80_TCP_ADDR: '10.0.0.1',
      GATEHOUSE_SERVICE_PORT_HTTP: '80',
    });
    expect(code).to.equal(2);
    expect(issues).to.deep.equal(
      [
        ['GATEHOUSE_TIMEZONE', ''],
        ['GATEHOUSE_AUTH_PORT', ''],
        ['GATEHOUSE_LOGLEVEL', ' (did you mean GATEHOUSE_LOG_LEVEL?)'],
      ].map(([setting, hint]) => ({
        setting,
        given: 'an unknown variable',
        expected: `a known variable${hint}`,
      })),
    );
  });

  it('the check compiles the theme', async () => {
    const theme = temporaryDirectory();
    writeFileSync(join(theme, 'consent-pages.ejs'), '');
    const { code, issues } = await issuesOf({ ...PRODUCTION, theme });
    expect(code).to.equal(2);
    expect(issues.map(({ setting }) => setting)).to.deep.equal(['theme']);
  });
});
