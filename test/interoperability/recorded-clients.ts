// Clients that cannot be run here, as recordings: what each registers or publishes, and how it asks, in one form (clients/*.json).
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';

const FOLDER = join(import.meta.dirname, 'clients');

const notOffered = z.strictObject({ notOffered: z.string().min(10) });
const metadata = z.record(z.string(), z.unknown());

/**
 * Where the scopes of a request come from: `challenge` is the `WWW-Authenticate` header of the answer before, `resource` and `server`
 * the two documents, `granted` the token at hand; anything else is sent as it stands. Nothing at all means no `scope` parameter.
 */
const scope = z.array(z.string());

export const recordedClient = z.strictObject({
  name: z.string(),
  /** How that is known, so that it can be looked up again. */
  sources: z.array(z.string().min(10)).min(1),
  /** What the authorization and resource servers see as its address. */
  address: z.string(),
  /** Set for a client that runs in a page: what it may not read across origins it does not get. */
  origin: z.string().optional(),
  protocolVersion: z.string().default('2025-06-18'),
  discovery: z.strictObject({
    probes: z.array(z.enum(['GET', 'HEAD', 'POST'])).min(1),
    /** Ways to the metadata of the resource that it knows. */
    resource: z.array(z.enum(['challenge', 'path'])).min(1),
    /** What the metadata of the authorization server has to contain for it to go on. */
    needs: z.record(z.string(), z.unknown()).default({}),
  }),
  registration: z.union([
    notOffered,
    z.strictObject({
      metadata,
      redirectUri: z.string(),
      method: z.enum(['none', 'client_secret_basic', 'client_secret_post']).default('none'),
      /** Addresses that the operator has to allow first. */
      allowedRedirects: z.array(z.string()).default([]),
    }),
  ]),
  document: z.union([
    notOffered,
    z.strictObject({
      url: z.string(),
      published: metadata,
      redirectUri: z.string(),
      /** What the operator has to put in its place first. */
      pinned: metadata.optional(),
    }),
  ]),
  authorization: z.strictObject({
    scope,
    /** When it connects once more, where that is different. */
    laterScope: scope.optional(),
    prompt: z.string().optional(),
    resource: z.enum(['once', 'twice', 'with a slash', 'no']).default('once'),
    more: z.record(z.string(), z.string()).default({}),
  }),
  refresh: z.strictObject({
    resource: z.boolean().default(true),
    scope: scope.default([]),
    /** How many of its processes may refresh with one and the same token. */
    atOnce: z.int().min(1).default(1),
  }),
  stepUp: z.union([
    notOffered,
    z.strictObject({ scope, registersAnew: z.boolean().default(false) }),
  ]),
  /** What it hands to the revocation endpoint when its person disconnects, if anything. */
  revokes: z.array(z.enum(['refresh_token', 'access_token'])).default([]),
});

export type RecordedClient = z.output<typeof recordedClient>;
export type Registration = Exclude<RecordedClient['registration'], { notOffered: string }>;
export type PublishedDocument = Exclude<RecordedClient['document'], { notOffered: string }>;

export const RECORDED_CLIENTS: readonly RecordedClient[] = readdirSync(FOLDER)
  .toSorted()
  .map((name) => recordedClient.parse(JSON.parse(readFileSync(join(FOLDER, name), 'utf8'))));

/** Undefined when it cannot register itself. */
export function registrationOf({ registration }: RecordedClient): Registration | undefined {
  return 'notOffered' in registration ? undefined : registration;
}

/** Undefined when it publishes none. */
export function documentOf({ document }: RecordedClient): PublishedDocument | undefined {
  return 'notOffered' in document ? undefined : document;
}
