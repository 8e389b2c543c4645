// Grants over the management API: listed by connector, account or client, shown with why they are over, and ended.
import type { Router } from '@koa/router';
import { findConnection, listConnections } from '../connections/connections.ts';
import { type Connection } from '../connections/connection.ts';
import type { ConnectionOptions } from '../connections/connections.ts';
import { endConnection } from '../connections/ending.ts';
import { type HttpError, notFound } from '../http/errors.ts';
import type { Page } from './documents.ts';
import { grantDocument, type GrantDocument } from './grant-documents.ts';
import { grantsQuery, parseInput } from './input.ts';

export function grantRoutes(router: Router, options: ConnectionOptions): void {
  router.get('/grants', async function list(ctx) {
    const { limit, after, ...wanted } = parseInput(grantsQuery, { ...ctx.query });
    const page: Page<GrantDocument> = { items: [] };
    let last: string | undefined;
    for await (const { connection, place } of listConnections(options, wanted, after)) {
      if (page.items.length === limit) {
        page.next = last;
        break;
      }
      page.items.push(grantDocument(connection));
      last = place;
    }
    ctx.body = page;
  });

  router.get('/grants/:id', async function show(ctx) {
    ctx.body = grantDocument(await requireConnection(options, ctx.params.id));
  });

  router.delete('/grants/:id', async function revoke(ctx) {
    const connection = await requireConnection(options, ctx.params.id);
    await endConnection(options, connection, 'revoked_by_administrator');
    ctx.body = grantDocument(await requireConnection(options, connection.id));
  });
}

async function requireConnection(options: ConnectionOptions, id = ''): Promise<Connection> {
  const connection = await findConnection(options, id);
  if (!connection) throw unknownGrant();
  return connection;
}

function unknownGrant(): HttpError {
  return notFound('there is no grant with this id; what ended is forgotten after 30 days');
}
