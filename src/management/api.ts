// The management API: connectors, grants, clients, accounts, minted tokens, signing keys and the audit log as JSON, for the command line, scripts and other programs.
import { Router } from '@koa/router';
import type Koa from 'koa';
import type { Account } from '../accounts/account.ts';
import { type AuditItem, readAudit, recordAudit } from '../audit/audit.ts';
import { type Connector, isUsable } from '../connectors/connector.ts';
import type { ClientSettings } from '../clients/clients.ts';
import {
  createConnector,
  deleteConnector,
  findConnector,
  listConnectors,
  revokeConnector,
  withSettledUses,
} from '../connectors/connectors.ts';
import type { Lifetimes } from '../grants/grant-life.ts';
import { grantStands } from '../grants/grants.ts';
import { readJson } from '../http/body.ts';
import { HttpError, notFound } from '../http/errors.ts';
import type { Level } from '../permission-level.ts';
import type { Entry, Store } from '../store/store.ts';
import { accountRoutes } from './accounts.ts';
import { clientRoutes } from './clients.ts';
import { connectorDocument, firstPage, type Page } from './documents.ts';
import { grantRoutes } from './grants.ts';
import { auditQuery, connectorsQuery, parseInput, parseNewConnector } from './input.ts';
import { mintedTokenRoutes } from './minted-tokens.ts';
import { signingKeyRoutes } from './signing-keys.ts';

const AUDIT_BATCH = 100;
/** Bytes, more or less: a page ends with the item that goes beyond it. */
const AUDIT_PAGE = 1024 * 1024;
/** Entries for one page: however many there are before the time that is asked for, every answer comes soon, maybe without items. */
const MOST_READ = 1000;

/** `accessTokenLifetime`, `accountLifetime` and `grantLifetime` in seconds. `authUrl` is the issuer of minted tokens. */
export type ApiOptions = {
  store: Store;
  authUrl: string;
  resourceUrl: string;
  accessTokenLifetime: number;
  grantLifetimes: Lifetimes;
  accountLifetime: number;
  grantLifetime: number;
  entitledLevel: (account: Account) => Level | undefined;
  clients: ClientSettings;
  now?: () => number;
};

const epochSeconds = () => Math.floor(Date.now() / 1000);

/** The routes below `/api/v1`; whoever mounts them has checked the caller. */
export function managementApi(options: ApiOptions): Router {
  const { store, resourceUrl, now = epochSeconds } = options;
  const router = new Router({ prefix: '/api/v1', sensitive: true, strict: true });

  router.use(async function neverCached(ctx, next) {
    ctx.set('Cache-Control', 'no-store');
    await next();
  });

  const stands = (grantId: string) => grantStands(store, grantId, options.grantLifetimes, now());
  const document = async (connector: Connector) =>
    connectorDocument(await withSettledUses(connector, stands), resourceUrl, now());

  router.post('/connectors', async function create(ctx) {
    const wanted = parseNewConnector(await readJson(ctx), now());
    const connector = await createConnector(store, wanted, now());
    await record(store, 'connector_created', connector.id, now());
    ctx.status = 201;
    ctx.set('Location', `/api/v1/connectors/${connector.id}`);
    ctx.body = await document(connector);
  });

  router.get('/connectors', async function list(ctx) {
    const query = parseInput(connectorsQuery, { ...ctx.query });
    const { items, next } = pageOf(await listConnectors(store), query);
    ctx.body = { items: await Promise.all(items.map(document)), next };
  });

  router.get('/connectors/:id', async function show(ctx) {
    const connector = await requireConnector(store, ctx.params.id);
    ctx.body = await document(connector);
  });

  router.delete('/connectors/:id', async function revoke(ctx) {
    const revocation = await revokeConnector(store, ctx.params.id ?? '', now());
    if (!revocation) throw unknownConnector();
    const { connector, first } = revocation;
    if (first) await record(store, 'connector_revoked', connector.id, now());
    ctx.body = await document(connector);
  });

  router.post('/connectors/:id/delete', async function forget(ctx) {
    const { id } = requireOver(await requireConnector(store, ctx.params.id), now());
    const connector = await deleteConnector(store, id);
    if (!connector) throw unknownConnector();
    await record(store, 'connector_deleted', id, now());
    ctx.body = await document(connector);
  });

  grantRoutes(router, { ...options, lifetimes: options.grantLifetimes, now });
  clientRoutes(router, { ...options, lifetimes: options.grantLifetimes, now });
  accountRoutes(router, { ...options, now });
  mintedTokenRoutes(router, { ...options, now });
  signingKeyRoutes(router, { ...options, now });

  router.get('/audit', async function audit(ctx) {
    ctx.body = await auditPage(store, parseInput(auditQuery, { ...ctx.query }));
  });

  router.all('/connectors', refuseMethod('GET, HEAD, POST'));
  router.all('/connectors/:id', refuseMethod('DELETE, GET, HEAD'));
  router.all('/connectors/:id/delete', refuseMethod('POST'));
  router.all('/accounts', refuseMethod('GET, HEAD'));
  router.all('/accounts/:id', refuseMethod('GET, HEAD'));
  router.all(['/accounts/:id/disable', '/accounts/:id/enable'], refuseMethod('POST'));
  router.all('/grants', refuseMethod('GET, HEAD'));
  router.all('/grants/:id', refuseMethod('DELETE, GET, HEAD'));
  router.all('/clients', refuseMethod('GET, HEAD'));
  router.all(['/clients/revoke', '/clients/allow'], refuseMethod('POST'));
  router.all('/tokens', refuseMethod('GET, HEAD, POST'));
  router.all('/tokens/:id', refuseMethod('DELETE'));
  router.all('/keys', refuseMethod('GET, HEAD'));
  router.all('/keys/rotate', refuseMethod('POST'));
  router.all('/audit', refuseMethod('GET, HEAD'));
  return router;
}

async function requireConnector(store: Store, id = '') {
  const connector = await findConnector(store, id);
  if (!connector) throw unknownConnector();
  return connector;
}

/** A slip of the hand cuts nobody off, and people are told for a while that the link was revoked before it is unknown. */
function requireOver(connector: Connector, now: number): Connector {
  if (!isUsable(connector, now)) return connector;
  const message = 'this connector still works: revoke it first, then delete it';
  throw new HttpError(409, 'still_in_use', message);
}

function unknownConnector(): HttpError {
  return notFound('there is no connector with this id');
}

async function record(store: Store, event: string, connector: string, now: number): Promise<void> {
  await recordAudit(store, { event, connector, outcome: 'done' }, now);
}

function refuseMethod(allow: string): Koa.Middleware {
  return function methodNotAllowed() {
    throw new HttpError(405, 'method_not_allowed', `this address answers ${allow}`, {
      headers: { Allow: allow },
    });
  };
}

type PageQuery = { limit: number; after?: string };

function pageOf<T extends { id: string }>(all: T[], { limit, after }: PageQuery): Page<T> {
  const start = after === undefined ? 0 : all.findIndex(({ id }) => id === after) + 1;
  if (after !== undefined && start === 0) {
    throw new HttpError(400, 'invalid_request', 'after: the next of an earlier page');
  }
  return firstPage(all.slice(start), limit);
}

async function auditPage(
  store: Store,
  { limit, after, since = -Infinity }: PageQuery & { since?: number },
): Promise<Page<AuditItem>> {
  const items: AuditItem[] = [];
  let last: string | undefined;
  let bytes = 0;
  let read = 0;
  for await (const { id, value } of auditEntries(store, after)) {
    if (items.length === limit || bytes > AUDIT_PAGE || read === MOST_READ)
      return { items, next: last };
    read += 1;
    last = id;
    if (Date.parse(value.time) < since * 1000) continue;
    items.push(value);
    bytes += JSON.stringify(value).length;
  }
  return { items };
}

async function* auditEntries(store: Store, after?: string): AsyncGenerator<Entry<AuditItem>> {
  for (let last = after; ;) {
    const batch = await readAudit(store, { after: last, limit: AUDIT_BATCH });
    yield* batch;
    last = batch.at(-1)?.id;
    if (batch.length < AUDIT_BATCH) return;
  }
}
