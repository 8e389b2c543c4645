// Waiting clients, closed registration and blocked apps.
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import { decodeJwt } from 'jose';
import { openBrowser, requirePage } from '../support/browser.ts';
import { advanceClock, freezeClock, restoreClock } from '../support/clock.ts';
import { connect, openConsent, registerClient } from '../support/connection.ts';
import {
  type Connector,
  createConnector,
  readAudit,
  requestManagement,
  showGrant,
} from '../support/management-api.ts';
import { isAccepted } from '../support/mcp.ts';
import { type Client, discover, refresh, register } from '../support/oauth.ts';
import {
  createDeployment,
  onEachStore,
  startDeployment,
  type System,
  useSystem,
} from '../support/system.ts';

const LOOPBACK = 'http://127.0.0.1:7070/callback';
const HOSTED = 'https://app.partner.example/callback';
/** The last one is the one that an administrator must not miss. */
const MANY = [1, 2, 3, 4, 5, 6].map((nth) => `https://host${nth}.example/callback`);
const DOCUMENT = 'https://documents.example.com/client.json';

type Resource = { id: string; state: string; endedGrants: number; items: Resource[] };

async function manage(system: System, method: 'GET' | 'POST' | 'DELETE', path: string, body = {}) {
  const sent = method === 'POST' ? [body] : [];
  return (await requestManagement(system, method, path, ...sent)) as Resource;
}

function stateOf(system: System, { id }: Client): Promise<string | undefined> {
  return manage(system, 'GET', `/clients?id=${encodeURIComponent(id)}`).then(
    ({ items }) => items[0]?.state,
  );
}

const metadata = (client_name: string, ...redirect_uris: string[]) => ({
  client_name,
  redirect_uris,
  token_endpoint_auth_method: 'none',
});

async function registered(link: string, sent: object): Promise<Client> {
  const { body } = await register((await discover(link)).server, sent);
  if (!body.client_id) throw new Error(JSON.stringify(body));
  const [redirectUri = ''] = body.redirect_uris ?? [];
  return { id: body.client_id, method: 'none', redirectUri };
}

const APPROVAL = {
  file: { clients: { registration: 'approval', allowedRedirects: [HOSTED, ...MANY] } },
};

describe('The registration mode approval', () => {
  const system = useSystem(APPROVAL);
  let connector: Connector;
  before(async () => {
    connector = await createConnector(system());
  });
  const open = async (client: Client) =>
    (await openConsent(system(), connector, { as: { client } })).page;
  const openConsole = async (path: string) => {
    const { management, origins } = system();
    const browser = openBrowser([...origins, management]);
    const signIn = requirePage(await browser.visit(`${management}/console${path}`));
    return requirePage(await browser.submit(signIn, { person: 'ada' }));
  };

  it('DCR-10 a new client waits on a page until an administrator allows its registration', async () => {
    const client = await registered(connector.link, metadata('<b>Notes</b>', LOOPBACK));
    const listed = () => manage(system(), 'GET', '/clients?state=waiting&limit=1000');
    expect((await listed()).items.map(({ id }) => id)).to.not.include(client.id);
    const waiting = await open(client);
    expect([waiting.status, waiting.forms.length]).to.deep.equal([403, 0]);
    expect(waiting.html).to.include('&lt;b&gt;Notes&lt;/b&gt;').and.to.include(client.id);
    expect((await listed()).items.map(({ id }) => id)).to.include(client.id);
    expect(await manage(system(), 'POST', '/clients/allow', { id: client.id })).to.include({
      state: 'allowed',
    });
    const { accessToken, link } = await connect(system(), connector, { as: { client } });
    expect(await isAccepted(link, accessToken)).to.equal(true);
    const again = await registered(connector.link, metadata('<b>Notes</b>', LOOPBACK));
    expect(await stateOf(system(), again)).to.equal('waiting');
  });

  it('DCR-10 waiting apps are listed with the time of the first attempt, the last one first, and each is recorded once', async () => {
    freezeClock();
    try {
      const clients: Client[] = [];
      for (const name of ['Earlier app', 'Later app']) {
        const client = await registered(connector.link, metadata(name, LOOPBACK, HOSTED));
        clients.push(client);
        advanceClock(60);
        for (const _attempt of [1, 2]) await open(client);
      }
      const ids = clients.map(({ id }) => id);
      const recorded = (await readAudit(system())).filter(
        ({ event, clientId = '' }) => event === 'client_waiting' && ids.includes(clientId),
      );
      expect(recorded.map(({ clientId, arguments: details }) => [clientId, details])).to.deep.equal(
        ['Earlier app', 'Later app'].map((name, at) => [
          ids[at],
          { name, destinations: ['app.partner.example', 'loopback'] },
        ]),
      );
      for (const { account } of recorded) expect(account).to.match(/^[\w-]{27}$/);
      const { items } = await manage(system(), 'GET', `/clients?id=${ids[0]}`);
      expect(items[0]).to.have.property('waitingSince', recorded[0]?.time.replace(/\.\d+/, '.000'));
      const html = (await openConsole('/clients?state=waiting')).html;
      expect(html.indexOf(ids[1] ?? '')).to.be.within(1, html.indexOf(ids[0] ?? ''));
    } finally {
      restoreClock();
    }
  });

  it('DCR-10 an allowed app does not wait when it registers anew, unless its name or hosts differ', async () => {
    const first = await registered(connector.link, metadata('Editor', HOSTED));
    await manage(system(), 'POST', '/clients/allow', { id: first.id, app: true });
    const stateWith = async (name: string, ...uris: string[]) =>
      stateOf(system(), await registered(connector.link, metadata(name, ...uris)));
    expect(await stateWith('Editor', HOSTED)).to.equal('allowed');
    expect(await stateWith('Editor 2', HOSTED)).to.equal('waiting');
    expect(await stateWith('Editor', HOSTED, LOOPBACK)).to.equal('waiting');
    const unnamed = await registered(connector.link, metadata('', LOOPBACK));
    const failed = await manage(system(), 'POST', '/clients/allow', {
      id: unnamed.id,
      app: true,
    }).catch(String);
    expect(failed).to.include('409');
  });

  it('DCR-10 the console shows each address of a waiting app, and beside the button the rule that it adds', async () => {
    const app = metadata('Many <hosts>', ...MANY, LOOPBACK);
    const client = await registered(connector.link, app);
    await open(client);
    const page = await openConsole('/clients?state=waiting');
    for (const uri of MANY) expect(page.html).to.include(uri);
    const shown = page.html
      .split('<details')
      .find((part) => part.includes('/clients/allow-app"') && part.includes(client.id));
    for (const destination of [...MANY.map((uri) => new URL(uri).host), 'localhost'])
      expect(shown).to.include(`<bdi>${destination}</bdi>`);
    expect(shown).to.include('Many &lt;hosts&gt;');
  });

  it('the console warns about a redirect to localhost before a waiting app is always allowed, says who asked for it, and offers to refuse it', async () => {
    const pageOf = async (name: string, uri: string) => {
      const client = await registered(connector.link, metadata(name, uri));
      await open(client);
      return (await openConsole(`/clients/${client.id}`)).html;
    };
    const [local, hosted] = [await pageOf('Local', LOOPBACK), await pageOf('Remote', HOSTED)];
    for (const html of [local, hosted])
      expect(html)
        .to.include('Always allow…')
        .and.match(/>Ada Lovelace<\/bdi><\/a> tried to connect /)
        .and.match(/<summary[^>]*>Reject…</)
        .and.not.match(/<summary[^>]*>Stop allowing…</);
    expect(local).to.include('can pose as this app');
    expect(hosted).not.to.include('can pose as this app');
  });

  it('DCR-11 a blocked host ends its connections, and registration and authorization are refused until it is unblocked', async () => {
    const client = await registered(connector.link, metadata('Partner', HOSTED));
    await manage(system(), 'POST', '/clients/allow', { id: client.id });
    const family = await connect(system(), connector, { as: { client } });
    const block = await manage(system(), 'POST', '/client-rules', { host: 'Partner.example' });
    expect(block.endedGrants).to.equal(1);
    const grant = String(decodeJwt(family.accessToken).grant_id);
    expect(await showGrant(system(), grant)).to.include({ reason: 'client_blocked' });
    expect(await isAccepted(family.link, family.accessToken)).to.equal(false);
    const { server } = await discover(connector.link);
    const refused = await register(server, metadata('Other', LOOPBACK, HOSTED));
    expect(refused.status).to.equal(403);
    expect(refused.body).to.include({ error: 'access_denied' });
    expect((await open(client)).status).to.equal(403);
    const repeated = await manage(system(), 'POST', '/client-rules', {
      host: 'partner.example.',
    });
    expect(repeated).to.include({ id: block.id, endedGrants: 0 });
    await manage(system(), 'DELETE', `/client-rules/${block.id}`);
    expect((await register(server, metadata('Other', HOSTED))).status).to.equal(201);
    expect((await refresh(server, client, family.refreshToken ?? '')).status).to.equal(400);
    await connect(system(), connector, { as: { client } });
    const events = (await readAudit(system())).map(({ event }) => event);
    expect(events.filter((event) => event === 'client_blocked')).to.have.length(1);
    expect(events).to.include.members(['client_allowed', 'client_rule_removed']);
  });

  it('DCR-11 a block that would have no effect, or one on a whole top-level domain, is refused', async () => {
    const hosts = ['*', '*.example', 'com', 'localhost', 'a b.example'].map((host) => ({ host }));
    const names = ['...', '!', '\u2014'].map((name) => ({ name }));
    for (const body of [...hosts, ...names]) {
      const refusal = await manage(system(), 'POST', '/client-rules', body).catch(String);
      expect(refusal, JSON.stringify(body)).to.be.a('string').and.include('400');
    }
  });

  it('DCR-11 a blocked name is refused whatever its case, blanks, punctuation and accents', async () => {
    const { server } = await discover(connector.link);
    const rule = await manage(system(), 'POST', '/client-rules', { name: 'Evil App' });
    for (const name of ['EVIL-APP', 'evil app', 'Evil\u200bApp', 'E\u0332vil App', '\u00c9vil App'])
      expect((await register(server, metadata(name, LOOPBACK))).status, name).to.equal(403);
    expect((await register(server, metadata('Evil Apples', LOOPBACK))).status).to.equal(201);
    await manage(system(), 'DELETE', `/client-rules/${rule.id}`);
  });
});

onEachStore(
  'A block in the registration mode approval',
  (system) => {
    it('DCR-11 an approval at the same time as a block leaves no connection', async () => {
      const connector = await createConnector(system());
      const client = await registered(connector.link, metadata('Racer', LOOPBACK));
      await manage(system(), 'POST', '/clients/allow', { id: client.id });
      const [block, connection] = await Promise.all([
        manage(system(), 'POST', '/client-rules', { name: 'Racer' }),
        connect(system(), connector, { as: { client } }).catch(() => undefined),
      ]);
      if (connection)
        expect(await isAccepted(connection.link, connection.accessToken)).to.equal(false);
      const { items } = await manage(system(), 'GET', `/grants?client=${client.id}&state=active`);
      expect(items).to.deep.equal([]);
      await manage(system(), 'DELETE', `/client-rules/${block.id}`);
    });
  },
  APPROVAL,
);

describe('The registration mode closed', () => {
  const system = useSystem({ file: { clients: { registration: 'closed' } } });

  it('DCR-12 with closed registration, no endpoint is advertised and registration is refused', async () => {
    const url = `${system().auth}/.well-known/oauth-authorization-server`;
    const server: unknown = await (await fetch(url)).json();
    expect(server).not.to.have.property('registration_endpoint');
    expect(server).to.include({ client_id_metadata_document_supported: false });
    const response = await fetch(`${system().auth}/oauth/register`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(metadata('Notes', LOOPBACK)),
    });
    expect(await response.json()).to.include({ error: 'access_denied' });
    expect(response.status).to.equal(403);
  });

  it('DCR-12 with closed registration, an unlisted metadata document is refused', async () => {
    const connector = await createConnector(system());
    const client: Client = { id: DOCUMENT, method: 'none', redirectUri: LOOPBACK };
    const { page } = await openConsent(system(), connector, { as: { client } });
    expect([page.status, page.forms.length]).to.deep.equal([400, 0]);
  });
});

describe('A registration mode that is switched on', () => {
  it('DCR-10 DCR-12 clients that were connected go on, and others wait', async () => {
    const deployment = await createDeployment();
    const file = join(deployment.facts.dataDir, 'settings.yaml');
    const restart = async (registration: string) => {
      const settings = JSON.parse(await readFile(file, 'utf8'));
      await writeFile(file, JSON.stringify({ ...settings, clients: { registration } }));
      return startDeployment(deployment);
    };
    let system = await startDeployment(deployment);
    try {
      const connector = await createConnector(system);
      const family = await connect(system, connector);
      const unused = await registerClient(family.server);
      for (const registration of ['approval', 'closed']) {
        await system.stop();
        system = await restart(registration);
        expect(await isAccepted(family.link, family.accessToken)).to.equal(true);
        expect(await stateOf(system, family.client)).to.equal('allowed');
        expect(await stateOf(system, unused)).to.equal('waiting');
        const { page } = await openConsent(system, connector, { as: { client: unused } });
        expect(page.status).to.equal(403);
        await connect(system, connector, { as: { client: family.client } });
      }
    } finally {
      await system.stop();
      await deployment.release();
    }
  });
});
