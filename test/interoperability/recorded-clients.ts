// Recordings of clients that cannot run here (clients/*.json): what each registers or publishes, and the parameters it sends.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';

const FOLDER = join(import.meta.dirname, 'clients');

const notOffered = z.strictObject({ notOffered: z.string().min(10) });
const metadata = z.record(z.string(), z.unknown());

/**
 * Sources of the requested scopes: `challenge` is the `WWW-Authenticate` header of the last response, `resource` and `server` are the
 * metadata documents, `granted` is the current token; anything else is sent literally. An empty list sends no `scope` parameter.
 */
const scope = z.array(z.string());

export const recordedClient = z.strictObject({
  name: z.string(),
  /** The source of this information. */
  sources: z.array(z.string().min(10)).min(1),
  /** The network address that the servers see. */
  address: z.string(),
  /** Set for a client that runs in a page: it cannot read what CORS does not allow. */
  origin: z.string().optional(),
  protocolVersion: z.string().default('2025-06-18'),
  /** A client that does not discover has its endpoints from its user. */
  discovery: z.union([
    notOffered,
    z.strictObject({
      /** No source describes its discovery. */
      assumed: z.literal(true).optional(),
      probes: z.array(z.enum(['GET', 'HEAD', 'POST'])).min(1),
      /** How it locates the metadata of the resource. */
      resource: z.array(z.enum(['challenge', 'path'])).min(1),
      /** Members that the metadata of the authorization server must have for the client to continue. */
      needs: z.record(z.string(), z.unknown()).default({}),
    }),
  ]),
  registration: z.union([
    notOffered,
    z.strictObject({
      metadata,
      redirectUri: z.string(),
      method: z.enum(['none', 'client_secret_basic', 'client_secret_post']).default('none'),
      /** The app of the catalogue that the operator must allow, by its id. */
      app: z.string().optional(),
      /** Redirect addresses that the operator must allow. */
      allowedRedirects: z.array(z.string()).default([]),
    }),
  ]),
  /** The client that an administrator adds to the settings. */
  preRegistered: z
    .strictObject({ id: z.string(), redirectUri: z.string(), secret: z.boolean() })
    .optional(),
  document: z.union([
    notOffered,
    z.strictObject({
      url: z.string(),
      published: metadata,
      redirectUri: z.string(),
      /** The document that the operator must put in its place. */
      pinned: metadata.optional(),
    }),
  ]),
  authorization: z.strictObject({
    scope,
    /** Differences when it connects again. */
    laterScope: scope.optional(),
    prompt: z.string().optional(),
    resource: z.enum(['once', 'twice', 'with a slash', 'no']).default('once'),
    more: z.record(z.string(), z.string()).default({}),
  }),
  refresh: z.strictObject({
    resource: z.boolean().default(true),
    scope: scope.default([]),
    /** How many of its processes may use one refresh token at the same time. */
    atOnce: z.int().min(1).default(1),
  }),
  stepUp: z.union([
    notOffered,
    z.strictObject({ scope, registersAnew: z.boolean().default(false) }),
  ]),
  /** It also connects as a machine, with a secret or an assertion (RS256) of this lifetime and audience. */
  machine: z
    .strictObject({
      assertion: z.strictObject({
        seconds: z.int(),
        /** `parsed issuer` has the slash of the empty path. */
        audience: z.enum(['issuer', 'parsed issuer']),
      }),
    })
    .optional(),
  /** The tokens that it sends to the revocation endpoint when its person disconnects. */
  revokes: z.array(z.enum(['refresh_token', 'access_token'])).default([]),
});

export type RecordedClient = z.output<typeof recordedClient>;
export type Registration = Exclude<RecordedClient['registration'], { notOffered: string }>;
export type PublishedDocument = Exclude<RecordedClient['document'], { notOffered: string }>;

export const RECORDED_CLIENTS: readonly RecordedClient[] = readdirSync(FOLDER)
  .toSorted()
  .map((name) => recordedClient.parse(JSON.parse(readFileSync(join(FOLDER, name), 'utf8'))));

/** Undefined if it cannot register. */
export function registrationOf({ registration }: RecordedClient): Registration | undefined {
  return 'notOffered' in registration ? undefined : registration;
}

/** Undefined if it publishes none. */
export function documentOf({ document }: RecordedClient): PublishedDocument | undefined {
  return 'notOffered' in document ? undefined : document;
}

/** Whether the operator must allow its redirect address. */
export function needsPermission({ app, allowedRedirects }: Registration): boolean {
  return app !== undefined || allowedRedirects.length > 0;
}

/** Whether its metadata document offers only a key. */
export function isKeyed(client: RecordedClient): boolean {
  const { token_endpoint_auth_method: method, token_endpoint_auth_methods_supported: offered } =
    documentOf(client)?.published ?? {};
  return method === 'private_key_jwt' && !(Array.isArray(offered) && offered.includes('none'));
}
