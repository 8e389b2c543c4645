import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { createConnector, listConnectors } from '../src/links/connectors.ts';
import type { CommandLineSettings } from '../src/settings/environment.ts';
import { SettingsError } from '../src/settings/issues.ts';
import { loadSettings } from '../src/settings/load.ts';
import { startGatehouse } from '../src/server.ts';
import { startupMessage } from '../src/startup-message.ts';
import { freePorts } from './support/free-ports.ts';
import { type ChangingUpstream, startChangingV2 } from './support/upstream/changing-upstream.ts';
import { temporaryDirectory } from './settings/settings-file.ts';
import { createDeployment, type Deployment } from './support/system.ts';

// `test/packaging/package.test.ts` shows that the program prints it, and takes --upstream.
describe('The startup message', () => {
  let place: Deployment;
  afterEach(() => place.release());

  async function messageWith(
    more: Record<string, string> = {},
    options: CommandLineSettings = {},
  ): Promise<string> {
    const settings = loadSettings({ ...place.environment, ...more }, { options });
    const running = await startGatehouse(settings);
    return startupMessage(settings, running).finally(running.stop);
  }

  it('the message lists every host and a connect link if all roles run', async () => {
    place = await createDeployment();
    const { auth, resource, management, origins } = place.facts;
    const message = await messageWith();
    for (const url of [auth, resource, management, ...origins]) expect(message).to.include(url);
    expect(message).to.match(/Connect link "Sample club"/);
    expect(message).to.include(`${management}/console (sign in as Ada Lovelace)\n`);
  });

  it('the message lists only the hosts of the roles that run', async () => {
    place = await createDeployment({ store: 'redis' });
    const { auth, resource, management } = place.facts;
    const message = await messageWith({ GATEHOUSE_ROLES: 'management' });
    expect(message).to.include(`${management}/console`);
    expect(message).to.match(/ management  *http.*\n  console  *http/);
    for (const text of [auth, resource, 'identity provider', 'Connect link'])
      expect(message).not.to.include(text);
  });

  it('the message does not mention a console that is off', async () => {
    place = await createDeployment({ file: { management: { administrators: [] } } });
    expect(await messageWith())
      .to.include(place.facts.management)
      .and.not.match(/console/);
  });

  describe('in front of an MCP server', () => {
    let upstream: ChangingUpstream;
    before(async () => {
      upstream = await startChangingV2([
        { name: 'search', annotations: { readOnlyHint: true } },
        { name: 'comment', annotations: { readOnlyHint: false, destructiveHint: false } },
        { name: 'remove' },
      ]);
    });
    after(() => upstream.close());

    const inFront = (more: object = {}, others: object = {}) =>
      createDeployment({
        file: { resourceServer: { upstream: { url: upstream.url, ...more } }, ...others },
      });

    it('the message counts the tools that each level opens, and the first link opens all', async () => {
      place = await inFront({ toolLevels: 'annotations' });
      upstream.trustIssuer(place.facts.auth);
      const message = await messageWith();
      const { host } = new URL(upstream.url);
      expect(message).to.include(
        `MCP server ${host}: analytics opens 1, operations opens 2, admin opens 2, full opens 3 of 3 tools.`,
      );
      expect(message).to.include(`Connect link "${host}" (full): `);
    });

    it('texts about levels that do not fit the settings are named, with what to change', async () => {
      const levels = [{ id: 'look' }, { id: 'change', title: 'Change' }, { id: 'erase' }];
      const entitlements = [{ match: { subject: 'ada' }, level: 'change' }];
      const theme = temporaryDirectory();
      mkdirSync(join(theme, 'messages'));
      const texts =
        'levels: { look: { title: Look }, erase: { sees: Records }, gone: { title: Gone } }';
      writeFileSync(join(theme, 'messages/en.yaml'), texts);
      place = await inFront({}, { levels, entitlements, theme });
      upstream.trustIssuer(place.facts.auth);
      const message = await messageWith();
      expect(message).to.include(
        'The theme has texts about levels that are not in the settings: gone. Name levels of the settings (look, change, erase) in its message files.\n',
      );
      expect(message).to.include(
        'The theme lacks levels.look.title, levels.erase.sees in de, es, fr, ja, pt, where people read the text of another language.',
      );
      expect(message).to.include(
        'Levels without a title: erase. Write title and sees for each in levels, or',
      );
    });

    it('a link that shows no tools is explained, with what to change', async () => {
      place = await inFront();
      upstream.trustIssuer(place.facts.auth);
      const settings = loadSettings(place.environment);
      const running = await startGatehouse(settings);
      await createConnector(running.store, { name: 'Low', level: 'admin', upstream: 'default' }, 1);
      const message = await startupMessage(settings, running).finally(running.stop);
      expect(message).to.include(
        'This link shows no tools, because all 3 need a level above admin. Give them a lower one in resourceServer.upstream.tools, or create a link with the level full.',
      );
    });

    it('a link is created if those in the store are for other levels', async () => {
      place = await createDeployment();
      expect(await messageWith()).to.include('Connect link "Sample club" (operations): ');
      const file = {
        levels: [{ id: 'one' }],
        entitlements: [{ match: { subject: 'ada' }, level: 'one' }],
      };
      const settings = { ...file, resourceServer: { upstream: { url: upstream.url } } };
      const path = join(place.facts.dataDir, 'again.yaml');
      const first = JSON.parse(readFileSync(String(place.environment.GATEHOUSE_CONFIG), 'utf8'));
      writeFileSync(path, JSON.stringify({ ...first, ...settings }));
      expect(await messageWith({ GATEHOUSE_CONFIG: path })).to.match(/Connect link ".*" \(one\): /);
    });

    it('an MCP server that does not answer is named, and the link is shown', async () => {
      const [port] = await freePorts(1);
      place = await inFront({ url: `http://127.0.0.1:${port}/mcp` });
      const message = await messageWith();
      expect(message).to.include(`MCP server 127.0.0.1:${port}: its tools cannot be read now (`);
      expect(message).to.match(/Connect link "127.0.0.1:\d+" \(full\): /);
    });

    it('gatehouse start --upstream needs no settings file and says what each level opens', async () => {
      place = await createDeployment();
      delete place.environment.GATEHOUSE_CONFIG;
      upstream.trustIssuer(place.facts.auth);
      const message = await messageWith({}, { upstream: upstream.url });
      expect(message).to.include('read opens 1, write opens 2, full opens 3 of 3 tools.');
      expect(message).to.not.include('without a title');
      expect(message).to.match(/Connect link ".*" \(full\): /);
    });

    it('gatehouse start --upstream replaces the address in a settings file', async () => {
      place = await inFront({ url: 'http://127.0.0.1:1/mcp', toolLevels: 'annotations' });
      const settings = loadSettings(place.environment, { options: { upstream: upstream.url } });
      expect(settings.upstreams.map(({ url }) => url)).to.deep.equal([upstream.url]);
      expect(() => loadSettings(place.environment, { options: { upstream: 'nowhere' } }))
        .to.throw(SettingsError)
        .with.property('message')
        .that.includes('--upstream: given "nowhere"');
    });
  });

  it('in production, the message ends with the next steps and creates no link', async () => {
    place = await createDeployment();
    const settings = { ...loadSettings(place.environment), production: true };
    const running = await startGatehouse({ ...settings, production: false });
    const message = await startupMessage(settings, running);
    expect(message).to.include('Check the deployment: npx gatehouse doctor');
    expect(message).to.match(/connector create --name "My connector" --level full$/);
    expect(await listConnectors(running.store)).to.deep.equal([]);
    await running.stop();
  });
});
