// People on the consent page, with clients of every kind.
import { createConnector, type Connector } from './management-api.ts';
import { describePage, openBrowser, type Page } from './browser.ts';
import { registerClient, REDIRECT_URI } from './connection.ts';
import { authorizeUrl, type Client, discover, register, type Server } from './oauth.ts';
import { useSystem } from './system.ts';

const DOCUMENT = 'https://app.example/client.json';
const HOSTED = 'https://app.example/cb';

/** Words of the texts about the sample, in all languages. Look for them in texts: random values in the markup can contain short ones. */
export const SAMPLE_WORDS =
  /yoga|ヨガ|Maria Silva|マリア|club|member\b|Mitglied|miembro|membre|membro|会員|IBAN|DE89/i;

/** One system for all tests of the surrounding `describe`; call the returned functions while a test runs. */
export function useConsent() {
  const system = useSystem({
    file: {
      clients: {
        preRegistered: [{ id: 'reports', name: 'Monthly reports', redirectUris: [HOSTED] }],
        metadataDocuments: [
          {
            url: DOCUMENT,
            document: { client_id: DOCUMENT, client_name: 'Claude', redirect_uris: [HOSTED] },
          },
        ],
      },
    },
  });
  let connector: Connector | undefined;
  let server: Server | undefined;
  before(async () => {
    connector = await createConnector(system(), { name: 'Club figures' });
    ({ server } = await discover(connector.link));
  });

  const PRE_REGISTERED: Client = { id: 'reports', method: 'none', redirectUri: HOSTED };
  const PUBLISHED: Client = { id: DOCUMENT, method: 'none', redirectUri: HOSTED };
  const target = () => {
    if (!connector || !server) throw new Error('the system runs only during tests');
    return { connector, server };
  };
  const newClient = () => registerClient(target().server);
  const startAuthorization = (client: Client, more = {}) =>
    authorizeUrl(target().server, client, { resource: target().connector.link, ...more });
  const newBrowser = () => openBrowser(system().origins);

  async function clientsOfEachKind(): Promise<[string, Client][]> {
    return [
      ['added by an administrator', PRE_REGISTERED],
      ['identified by its web address', PUBLISHED],
      ['not verified', await newClient()],
    ];
  }

  async function registerNamed(metadata: object): Promise<Client> {
    const { body } = await register(target().server, {
      redirect_uris: [REDIRECT_URI],
      token_endpoint_auth_method: 'none',
      ...metadata,
    });
    return { id: body.client_id ?? '', method: 'none', redirectUri: REDIRECT_URI };
  }

  /** Opens the page, in a new browser unless one is given; returns it with the authorization. */
  async function openConsentPage(client?: Client, browser = newBrowser()) {
    const authorization = startAuthorization(client ?? (await newClient()));
    const page = await browser.openConsent(authorization.url);
    return { browser, page, ...authorization };
  }

  return {
    system,
    target,
    newClient,
    startAuthorization,
    newBrowser,
    clientsOfEachKind,
    registerNamed,
    openConsentPage,
  };
}

/** The request that approves on this page. */
export function approvalForm(page: Page): { action: URL; body: URLSearchParams } {
  const form = page.forms.find(({ method }) => method === 'POST');
  if (!form) throw new Error(describePage(page));
  const body = new URLSearchParams({ decision: 'approve', level: 'operations' });
  for (const { kind, name, value } of form.controls)
    if (kind === 'hidden') body.append(name, value);
  return { action: form.action, body };
}
