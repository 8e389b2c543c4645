// The management API as functions, for the command line: what was asked for, or an error that says what to do.
import type { AuditItem } from '../audit/audit.ts';
import type { Level } from '../permission-level.ts';
import type {
  AccountDocument,
  ConnectorDocument,
  ForgottenAccountDocument,
  MintedTokenDocument,
  NewTokenDocument,
  Page,
  SigningKeyDocument,
} from './documents.ts';
import type { ClientDocument, GrantDocument, RevokedClientDocument } from './grant-documents.ts';

/** The base address of the management host, and its key. */
export type Access = { url: string; key: string };

/** `expiresIn` is from now, such as `30d`; `expiresAt` is ISO 8601. At most one of them. */
export type WantedExpiry = { expiresIn?: string; expiresAt?: string };
export type WantedToken = WantedExpiry & { name: string; level: Level };
/** Ids; `state` as in the grant documents. */
export type WantedGrants = Partial<Record<'account' | 'client' | 'connector' | 'state', string>>;
export type WantedConnector = WantedToken & { suggestedLevel?: Level; maxUses?: number };

/** `code` is the API's error code, or `unreachable`, `timeout`, `not_gatehouse` when there was no answer of its own. */
export class ManagementError extends Error {
  readonly code: string;

  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'ManagementError';
    this.code = code;
  }
}

const ANSWER_WITHIN = 15;
const PAGE = 500;

export function createConnector(
  access: Access,
  wanted: WantedConnector,
): Promise<ConnectorDocument> {
  return call(access, 'POST', '/connectors', wanted);
}

export function showConnector(access: Access, id: string): Promise<ConnectorDocument> {
  return call(access, 'GET', `/connectors/${encodeURIComponent(id)}`);
}

export function revokeConnector(access: Access, id: string): Promise<ConnectorDocument> {
  return call(access, 'DELETE', `/connectors/${encodeURIComponent(id)}`);
}

/** One that is revoked or expired; answers what it was. */
export function deleteConnector(access: Access, id: string): Promise<ConnectorDocument> {
  return call(access, 'POST', `/connectors/${encodeURIComponent(id)}/delete`);
}

/** All of them, oldest first. */
export function listConnectors(access: Access): AsyncGenerator<ConnectorDocument> {
  return everyItem(access, '/connectors', {});
}

/** In no useful order. */
export function listAccounts(access: Access): AsyncGenerator<AccountDocument> {
  return everyItem(access, '/accounts', {});
}

export function showAccount(access: Access, id: string): Promise<AccountDocument> {
  return call(access, 'GET', `/accounts/${encodeURIComponent(id)}`);
}

export function disableAccount(access: Access, id: string): Promise<AccountDocument> {
  return call(access, 'POST', `/accounts/${encodeURIComponent(id)}/disable`);
}

export function enableAccount(access: Access, id: string): Promise<AccountDocument> {
  return call(access, 'POST', `/accounts/${encodeURIComponent(id)}/enable`);
}

export function forgetAccount(access: Access, id: string): Promise<ForgottenAccountDocument> {
  return call(access, 'POST', `/accounts/${encodeURIComponent(id)}/forget`);
}

/** The oldest first, without a filter connector by connector. */
export function listGrants(access: Access, wanted: WantedGrants): AsyncGenerator<GrantDocument> {
  return everyItem(access, '/grants', wanted);
}

export function showGrant(access: Access, id: string): Promise<GrantDocument> {
  return call(access, 'GET', `/grants/${encodeURIComponent(id)}`);
}

/** What is left of it afterwards. */
export function revokeGrant(access: Access, id: string): Promise<GrantDocument> {
  return call(access, 'DELETE', `/grants/${encodeURIComponent(id)}`);
}

/** Those that somebody connected with, and those that are revoked. */
export function listClients(access: Access): AsyncGenerator<ClientDocument> {
  return everyItem(access, '/clients', {});
}

export async function showClient(access: Access, id: string): Promise<ClientDocument> {
  const page: Page<ClientDocument> = await call(
    access,
    'GET',
    `/clients?${new URLSearchParams({ id })}`,
  );
  const [client] = page.items;
  if (client) return client;
  throw new ManagementError('not_found', 'there is no client with this id');
}

export function revokeClient(access: Access, id: string): Promise<RevokedClientDocument> {
  return call(access, 'POST', '/clients/revoke', { id });
}

export function allowClient(access: Access, id: string): Promise<ClientDocument> {
  return call(access, 'POST', '/clients/allow', { id });
}

/** The answer has the token in it, which nobody is told again. */
export function mintToken(access: Access, wanted: WantedToken): Promise<NewTokenDocument> {
  return call(access, 'POST', '/tokens', wanted);
}

/** The record that the token had. */
export function revokeToken(access: Access, id: string): Promise<MintedTokenDocument> {
  return call(access, 'DELETE', `/tokens/${encodeURIComponent(id)}`);
}

/** All that did not expire, oldest first. */
export function listTokens(access: Access): AsyncGenerator<MintedTokenDocument> {
  return everyItem(access, '/tokens', {});
}

/** Newest first. */
export function listKeys(access: Access): Promise<Page<SigningKeyDocument>> {
  return call(access, 'GET', '/keys');
}

/** All keys afterwards. `atOnce`: without waiting for verifiers, and ending what older keys signed. */
export function rotateKeys(
  access: Access,
  rotation: { atOnce: boolean },
): Promise<Page<SigningKeyDocument>> {
  return call(access, 'POST', '/keys/rotate', rotation);
}

/** From the time `since` (ISO 8601); oldest first, unless `order` says otherwise. */
export function listAudit(
  access: Access,
  wanted: { since?: string; event?: string; order?: 'oldest' | 'newest' },
): AsyncGenerator<AuditItem> {
  return everyItem(access, '/audit', wanted);
}

async function* everyItem<T>(
  access: Access,
  path: string,
  query: Record<string, string>,
): AsyncGenerator<T> {
  for (let after: { after?: string } | undefined = {}; after;) {
    const parameters = new URLSearchParams({ ...query, ...after, limit: String(PAGE) });
    const page: Page<T> = await call(access, 'GET', `${path}?${parameters}`);
    yield* page.items;
    after = page.next === undefined ? undefined : { after: page.next };
  }
}

async function call<T>(access: Access, method: string, path: string, body?: unknown): Promise<T> {
  const { status, text } = await send(access, method, path, body);
  const answer = parseJson(text);
  if (status < 300 && isObject(answer)) return answer as T;
  throw refusal(access, status, answer);
}

async function send({ url, key }: Access, method: string, path: string, body: unknown) {
  const content = body === undefined ? undefined : { 'Content-Type': 'application/json' };
  try {
    const response = await fetch(`${url}/api/v1${path}`, {
      method,
      headers: { Authorization: `Bearer ${key}`, Accept: 'application/json', ...content },
      body: body === undefined ? undefined : JSON.stringify(body),
      // The key is for this address only.
      redirect: 'manual',
      signal: AbortSignal.timeout(ANSWER_WITHIN * 1000),
    });
    return { status: response.status, text: await response.text() };
  } catch (cause) {
    throw noAnswer(url, cause);
  }
}

function noAnswer(url: string, cause: unknown): ManagementError {
  if (isObject(cause) && cause['name'] === 'TimeoutError') {
    const message = `${url} did not answer within ${ANSWER_WITHIN} seconds`;
    return new ManagementError('timeout', message, { cause });
  }
  const reason = isObject(cause) && isObject(cause['cause']) ? cause['cause'] : {};
  const problem =
    reason['code'] === 'ECONNREFUSED'
      ? `nothing answers at ${url}`
      : `${url} cannot be reached (${String(reason['code'] ?? reason['message'] ?? cause)})`;
  const advice = 'is Gatehouse running? start it with npm start, or set GATEHOUSE_MANAGEMENT_URL';
  return new ManagementError('unreachable', `${problem}: ${advice}`, { cause });
}

function refusal({ url }: Access, status: number, answer: unknown): ManagementError {
  if (!isObject(answer) || typeof answer['error'] !== 'string') {
    const message = `what answers at ${url} is not Gatehouse's management API (HTTP status ${status}): set GATEHOUSE_MANAGEMENT_URL`;
    return new ManagementError('not_gatehouse', message);
  }
  const { error, error_description: description = `HTTP status ${status}` } = answer;
  return new ManagementError(error, ADVICE[status]?.(url) ?? String(description));
}

const ADVICE: Readonly<Record<number, (url: string) => string>> = {
  401: (url) =>
    `the management key is not the one of ${url}: set GATEHOUSE_MANAGEMENT_KEY to it, or GATEHOUSE_DATA_DIR to the directory with its management.key`,
  421: (url) =>
    `Gatehouse answers at ${url} but goes by another address: set GATEHOUSE_MANAGEMENT_URL to the managementUrl of its settings`,
};

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}
