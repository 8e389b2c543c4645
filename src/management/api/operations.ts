// The operations of the management API by id. The router, the OpenAPI document and the typed client are all derived from them.
import * as z from 'zod';
import type { Levels } from '../../permission-levels.ts';
import { accessOperations } from '../resources/access.ts';
import { accountOperations } from '../resources/account.ts';
import { applyOperations } from '../resources/apply.ts';
import { auditOperations } from '../resources/audit.ts';
import { credentialOperations } from '../resources/credential.ts';
import { deliveryOperations } from '../resources/audit-delivery.ts';
import { attemptOperations } from '../resources/attempt.ts';
import { auditIntegrityOperations } from '../resources/audit-integrity.ts';
import { auditReachOperations } from '../resources/audit-reach.ts';
import { clientRuleOperations } from '../resources/client-rule.ts';
import { clientOperations } from '../resources/client.ts';
import { connectorOperations } from '../resources/connector.ts';
import { grantOperations } from '../resources/grant.ts';
import { keyOperations } from '../resources/key.ts';
import { machineOperations } from '../resources/machine.ts';
import { refusalOperations } from '../resources/refusal.ts';
import type { Operation } from '../resources/resource.ts';
import { settingsOperations } from '../resources/settings.ts';
import { tokenOperations } from '../resources/token.ts';
import { upstreamOperations } from '../resources/upstream.ts';
import { workloadOperations } from '../resources/workload.ts';

export const API_PATH = '/api/v1';

export const OPERATIONS = {
  ...connectorOperations,
  ...grantOperations,
  ...clientOperations,
  ...machineOperations,
  ...workloadOperations,
  ...clientRuleOperations,
  ...accountOperations,
  ...accessOperations,
  ...refusalOperations,
  ...attemptOperations,
  ...credentialOperations,
  ...tokenOperations,
  ...keyOperations,
  ...upstreamOperations,
  ...auditOperations,
  ...auditIntegrityOperations,
  ...deliveryOperations,
  ...auditReachOperations,
  ...settingsOperations,
  ...applyOperations,
  showOpenApi: {
    method: 'get',
    path: '/openapi.json',
    role: 'viewer',
    summary: 'Shows this document.',
    response: z.record(z.string(), z.unknown()).meta({ description: 'An OpenAPI 3.1 document.' }),
  },
} as const satisfies Record<string, Operation>;

export type OperationName = keyof typeof OPERATIONS;

type OperationOf<Name extends OperationName> = (typeof OPERATIONS)[Name];

type Query<Name extends OperationName> =
  OperationOf<Name> extends { query: infer Schema extends z.ZodObject } ? Schema : never;
type Body<Name extends OperationName> =
  OperationOf<Name> extends {
    body: (now: number, levels: Levels) => infer Schema extends z.ZodType;
  }
    ? Schema
    : never;

/** The entity tags of the record that is changed, as in the header `If-Match`. Without them, it is changed whatever it is. */
type WithMatch = { ifMatch?: string | undefined };

/** The members of a request that an operation has. */
type WithParts<
  Name extends OperationName,
  ForQuery,
  ForBody,
> = (OperationOf<Name>['path'] extends `${string}:id${string}` ? { id: string } : unknown) &
  (OperationOf<Name> extends { method: 'patch' } ? WithMatch : unknown) &
  (OperationOf<Name> extends { query: unknown } ? ForQuery : unknown) &
  (OperationOf<Name> extends { body: unknown } ? ForBody : unknown);

/** A validated request. */
export type ApiRequest<Name extends OperationName> = WithParts<
  Name,
  { query: z.output<Query<Name>> },
  { body: z.output<Body<Name>> }
>;

/** A request before validation, as a client sends it. */
export type ClientRequest<Name extends OperationName> = WithParts<
  Name,
  { query?: z.input<Query<Name>> },
  { body: z.input<Body<Name>> }
>;

export type ApiResponse<Name extends OperationName> = z.output<OperationOf<Name>['response']>;
