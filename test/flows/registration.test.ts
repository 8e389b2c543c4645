// RFC 7591.
import { expect } from 'chai';
import { recordedClient, RECORDED_CLIENTS } from '../interoperability/recorded-clients.ts';
import { recordedRow } from '../interoperability/recorded-rows.ts';
import { useTestSystems } from '../interoperability/systems.ts';
import { STEPS } from '../interoperability/table.ts';
import { createConnector } from '../support/management-api.ts';
import { restoreClock } from '../support/clock.ts';
import { discover, register } from '../support/oauth.ts';
import { useSystem } from '../support/system.ts';

/** A registration with empty members, as some serializers write them. */
const EMPTY_MEMBERS = recordedClient.parse({
  name: 'a client that sends empty members',
  sources: ['anthropics/claude-code issue 13685, and older Python SDKs'],
  address: '203.0.113.200',
  discovery: { probes: ['POST'], resource: ['challenge'] },
  registration: {
    redirectUri: 'http://127.0.0.1:8090/callback',
    method: 'client_secret_post',
    metadata: {
      client_name: 'Empty Members',
      client_uri: null,
      logo_uri: '',
      tos_uri: null,
      policy_uri: null,
      jwks_uri: null,
      contacts: null,
      scope: null,
      software_id: null,
      redirect_uris: ['http://127.0.0.1:8090/callback'],
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
      token_endpoint_auth_method: 'client_secret_post',
    },
  },
  document: { notOffered: 'it publishes none' },
  authorization: { scope: [], resource: 'with a slash' },
  refresh: {},
  stepUp: { notOffered: 'it is about registration' },
});

describe('Recorded clients, on redis', function () {
  this.timeout(30_000);
  const systems = useTestSystems('redis');
  afterEach(restoreClock);

  // All of them run on SQLite in interoperability/recordings.test.ts. Claude registers and publishes a document.
  const claude = RECORDED_CLIENTS.filter(({ name }) => name.startsWith('Claude (web'));
  for (const client of [...claude, EMPTY_MEMBERS])
    it(`KEY-06 the client registers, connects and refreshes: ${client.name}`, async () => {
      const { steps } = recordedRow(client, systems);
      for (const step of STEPS) {
        const proof = steps[step];
        if ('prove' in proof) await proof.prove();
      }
    });
});

describe('Dynamic client registration', () => {
  const system = useSystem();

  it('the response lists the redirect addresses that were accepted', async () => {
    const { link } = await createConnector(system());
    const { server } = await discover(link);
    const { body } = await register(server, {
      redirect_uris: [
        'cursor://callback',
        'http://localhost:8787/callback',
        'https://other.example/cb',
      ],
      token_endpoint_auth_method: 'none',
    });
    expect(body.redirect_uris).to.deep.equal(['http://localhost:8787/callback']);
  });
});
