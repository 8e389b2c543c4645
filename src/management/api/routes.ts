// The route table of the management API. The router, the OpenAPI document and the typed client are all derived from it.
import { z } from 'zod';
import type { Levels } from '../../permission-levels.ts';
import {
  accountsQuery,
  allowClientBody,
  auditQuery,
  blockBody,
  clientIdBody,
  clientsQuery,
  connectorsQuery,
  grantsQuery,
  machineKeyBody,
  newConnectorBody,
  newMachineBody,
  newTokenBody,
  rotateKeysBody,
  tokensQuery,
} from './requests.ts';
import {
  accountPageSchema,
  accountSchema,
  auditPageSchema,
  blockSchema,
  clientPageSchema,
  clientRulePageSchema,
  clientRuleSchema,
  clientSchema,
  connectorPageSchema,
  connectorSchema,
  forgottenAccountSchema,
  grantPageSchema,
  grantSchema,
  levelPageSchema,
  machineSchema,
  mintedTokenPageSchema,
  mintedTokenSchema,
  newTokenSchema,
  revokedClientSchema,
  signingKeyPageSchema,
  upstreamPageSchema,
  upstreamSchema,
} from './resources.ts';

import type { ManagementRole } from '../../settings/management-roles.ts';

export const API_PATH = '/api/v1';

export type Route = {
  method: 'get' | 'post' | 'delete';
  /** Below `API_PATH`. The only path parameter is `:id`. */
  path: string;
  summary: string;
  /** The lowest role that may use the route. The console applies it to the same operation. */
  role: ManagementRole;
  query?: z.ZodObject;
  /** Takes the current time in seconds, because expiry times must be in the future. */
  body?: (now: number, levels: Levels) => z.ZodType;
  /** Treats a missing body as `{}`. */
  isBodyOptional?: true;
  /** 200 if absent. */
  status?: 201;
  response: z.ZodType;
  /** Status and description of errors that other routes do not have. */
  errors?: Record<number, string>;
  /** Returns the path of the created resource, below `API_PATH`. */
  location?: (created: { id: string }) => string;
};

const NOT_FOUND = { 404: 'The resource does not exist.' };

/** Routes by operation id. */
export const ROUTES = {
  createConnector: {
    method: 'post',
    path: '/connectors',
    role: 'operator',
    summary: 'Creates a connector. People add its `link` to their app.',
    body: newConnectorBody,
    status: 201,
    response: connectorSchema,
    location: ({ id }) => `/connectors/${id}`,
  },
  listConnectors: {
    method: 'get',
    path: '/connectors',
    role: 'viewer',
    summary: 'Lists connectors, oldest first.',
    query: connectorsQuery,
    response: connectorPageSchema,
  },
  showConnector: {
    method: 'get',
    path: '/connectors/:id',
    role: 'viewer',
    summary: 'Shows a connector.',
    response: connectorSchema,
    errors: NOT_FOUND,
  },
  revokeConnector: {
    method: 'delete',
    path: '/connectors/:id',
    role: 'operator',
    summary: 'Revokes a connector. All grants made through it end immediately.',
    response: connectorSchema,
    errors: NOT_FOUND,
  },
  deleteConnector: {
    method: 'post',
    path: '/connectors/:id/delete',
    role: 'operator',
    summary: 'Deletes a connector that is revoked or has expired.',
    response: connectorSchema,
    errors: { ...NOT_FOUND, 409: 'The connector still works. Revoke it first.' },
  },
  listGrants: {
    method: 'get',
    path: '/grants',
    role: 'viewer',
    summary: 'Lists grants, oldest first. Without a filter they are sorted by connector first.',
    query: grantsQuery,
    response: grantPageSchema,
  },
  showGrant: {
    method: 'get',
    path: '/grants/:id',
    role: 'viewer',
    summary: 'Shows a grant, and why it ended or is refused. Ended grants are kept for 30 days.',
    response: grantSchema,
    errors: NOT_FOUND,
  },
  revokeGrant: {
    method: 'delete',
    path: '/grants/:id',
    role: 'operator',
    summary: 'Ends a grant. The app is disconnected immediately.',
    response: grantSchema,
    errors: NOT_FOUND,
  },
  // A client id may be a URL, so it is never part of a path.
  listClients: {
    method: 'get',
    path: '/clients',
    role: 'viewer',
    summary: 'Lists connected, waiting, allowed and revoked clients, or one client by its id.',
    query: clientsQuery,
    response: clientPageSchema,
  },
  revokeClient: {
    method: 'post',
    path: '/clients/revoke',
    role: 'operator',
    summary: 'Revokes a client. All its grants end and it cannot be connected.',
    body: () => clientIdBody,
    response: revokedClientSchema,
    errors: NOT_FOUND,
  },
  allowClient: {
    method: 'post',
    path: '/clients/allow',
    role: 'operator',
    summary: 'Allows people to connect a waiting or revoked client.',
    body: () => allowClientBody,
    response: clientSchema,
    errors: { ...NOT_FOUND, 409: 'A rule blocks the client, or its name is missing.' },
  },
  createMachine: {
    method: 'post',
    path: '/clients',
    role: 'operator',
    summary:
      'Creates a machine: a client that connects to one connector without a person (RFC 6749 section 4.4).',
    body: newMachineBody,
    status: 201,
    response: machineSchema,
    errors: { ...NOT_FOUND, 409: 'The connector has ended, or has no use left.' },
  },
  replaceMachineKey: {
    method: 'post',
    path: '/clients/key',
    role: 'operator',
    summary: 'Replaces the secret or key of a machine. Its tokens end immediately.',
    body: () => machineKeyBody,
    response: machineSchema,
    errors: { ...NOT_FOUND, 409: 'The machine or its connector has ended.' },
  },
  listClientRules: {
    method: 'get',
    path: '/client-rules',
    role: 'viewer',
    summary: 'Lists the rules that block hosts and names or allow apps.',
    response: clientRulePageSchema,
  },
  blockClients: {
    method: 'post',
    path: '/client-rules',
    role: 'operator',
    summary:
      'Blocks current and future apps with a host or name. Their grants end, and they cannot register or be connected.',
    body: () => blockBody,
    response: blockSchema,
    errors: { 409: 'There are too many rules.' },
  },
  removeClientRule: {
    method: 'delete',
    path: '/client-rules/:id',
    role: 'operator',
    summary: 'Removes an app rule. Ended grants are not restored.',
    response: clientRuleSchema,
    errors: NOT_FOUND,
  },
  listAccounts: {
    method: 'get',
    path: '/accounts',
    role: 'viewer',
    summary: 'Lists accounts, in no particular order.',
    query: accountsQuery,
    response: accountPageSchema,
  },
  showAccount: {
    method: 'get',
    path: '/accounts/:id',
    role: 'viewer',
    summary: 'Shows an account.',
    response: accountSchema,
    errors: NOT_FOUND,
  },
  disableAccount: {
    method: 'post',
    path: '/accounts/:id/disable',
    role: 'administrator',
    summary:
      'Disables an account. All its connections stop working and the person cannot connect. Not found if the account was forgotten.',
    response: accountSchema,
    errors: NOT_FOUND,
  },
  enableAccount: {
    method: 'post',
    path: '/accounts/:id/enable',
    role: 'administrator',
    summary: 'Lets a person sign in and connect again.',
    response: accountSchema,
    errors: NOT_FOUND,
  },
  forgetAccount: {
    method: 'post',
    path: '/accounts/:id/forget',
    role: 'administrator',
    summary:
      'Ends all connections of a person and deletes name, email address, groups and subject. A disabled account stays disabled.',
    response: forgottenAccountSchema,
    errors: NOT_FOUND,
  },
  mintToken: {
    method: 'post',
    path: '/tokens',
    role: 'operator',
    summary: 'Mints a token. Only this response contains it.',
    body: newTokenBody,
    status: 201,
    response: newTokenSchema,
  },
  listTokens: {
    method: 'get',
    path: '/tokens',
    role: 'viewer',
    summary: 'Lists minted tokens that have not expired, oldest first.',
    query: tokensQuery,
    response: mintedTokenPageSchema,
  },
  revokeToken: {
    method: 'delete',
    path: '/tokens/:id',
    role: 'operator',
    summary: 'Revokes a minted token immediately.',
    response: mintedTokenSchema,
    errors: NOT_FOUND,
  },
  listKeys: {
    method: 'get',
    path: '/keys',
    role: 'viewer',
    summary: 'Lists the published signing keys, newest first.',
    response: signingKeyPageSchema,
  },
  rotateKeys: {
    method: 'post',
    path: '/keys/rotate',
    role: 'administrator',
    summary:
      'Publishes a new signing key, which replaces the current one. With `atOnce`, every access token stops working.',
    body: () => rotateKeysBody,
    isBodyOptional: true,
    status: 201,
    response: signingKeyPageSchema,
    errors: { 409: 'A rotation is already in progress.' },
  },
  listLevels: {
    method: 'get',
    path: '/levels',
    role: 'viewer',
    summary: 'Lists the permission levels in the settings, the lowest first.',
    response: levelPageSchema,
  },
  listUpstreams: {
    method: 'get',
    path: '/upstreams',
    role: 'viewer',
    summary: 'Lists the MCP servers in the settings, with their tools and the level of each.',
    response: upstreamPageSchema,
  },
  showUpstream: {
    method: 'get',
    path: '/upstreams/:id',
    role: 'viewer',
    summary: 'Shows an MCP server in the settings.',
    response: upstreamSchema,
    errors: NOT_FOUND,
  },
  listAudit: {
    method: 'get',
    path: '/audit',
    role: 'viewer',
    summary:
      'Lists audit items, newest first unless `order` is `oldest`. A page can be empty although `next` is present.',
    query: auditQuery,
    response: auditPageSchema,
  },
  showOpenApi: {
    method: 'get',
    path: '/openapi.json',
    role: 'viewer',
    summary: 'Shows this document.',
    response: z.record(z.string(), z.unknown()).meta({ description: 'An OpenAPI 3.1 document.' }),
  },
} as const satisfies Record<string, Route>;

export type RouteName = keyof typeof ROUTES;

type RouteOf<Name extends RouteName> = (typeof ROUTES)[Name];

type QuerySchema<Name extends RouteName> =
  RouteOf<Name> extends { query: infer Schema extends z.ZodObject } ? Schema : z.ZodObject<{}>;
type BodySchema<Name extends RouteName> =
  RouteOf<Name> extends { body: (now: number, levels: Levels) => infer Schema extends z.ZodType }
    ? Schema
    : z.ZodUndefined;

/** A validated request. `id` is the path parameter, or empty. */
export type ApiRequest<Name extends RouteName> = {
  id: string;
  query: z.output<QuerySchema<Name>>;
  body: z.output<BodySchema<Name>>;
};

/** A request before validation, as a client sends it. */
export type ClientRequest<Name extends RouteName> =
  (RouteOf<Name>['path'] extends `${string}:id${string}` ? { id: string } : unknown) &
    (RouteOf<Name> extends { query: z.ZodType }
      ? { query?: z.input<QuerySchema<Name>> }
      : unknown) &
    (RouteOf<Name> extends { body: unknown } ? { body: z.input<BodySchema<Name>> } : unknown);

export type ApiResponse<Name extends RouteName> = z.output<RouteOf<Name>['response']>;
