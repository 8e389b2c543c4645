// The management API: every route there is, as JSON for the command line, scripts and other programs, and the document about them.
import type { Router } from '@koa/router';
import { accountRoutes } from './accounts.ts';
import { auditRoutes } from './audit-log.ts';
import { clientRoutes } from './clients.ts';
import { connectorRoutes } from './connectors.ts';
import { grantRoutes } from './grants.ts';
import { mintedTokenRoutes } from './minted-tokens.ts';
import { mountedRoutes } from './api/router.ts';
import { openApiDocument, openApiRoute } from './api/openapi.ts';
import type { ManagementServices } from './services.ts';
import { signingKeyRoutes } from './signing-keys.ts';

const ROUTES = [
  ...connectorRoutes,
  ...grantRoutes,
  ...clientRoutes,
  ...accountRoutes,
  ...mintedTokenRoutes,
  ...signingKeyRoutes,
  ...auditRoutes,
];

/** The routes below `/api/v1`; whoever mounts them has checked the caller. `url` is the address of this host. */
export function managementApi(services: ManagementServices, url: string, version: string): Router {
  const document = openApiDocument([...ROUTES, openApiRoute(() => ({}))], { url, version });
  return mountedRoutes([...ROUTES, openApiRoute(() => document)], services);
}
