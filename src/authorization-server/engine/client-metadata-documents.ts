// Client ID metadata documents (draft-ietf-oauth-client-id-metadata-document): fetched for people who connect, remembered for those who did.
import { LRUCache } from 'lru-cache';
import { errors, type KoaContextWithOIDC } from 'oidc-provider';
import type { RateLimit } from '../../http/rate-limits.ts';
import { StoreUnavailable } from '../../store/store.ts';
import { acceptedMetadata } from './client-metadata.ts';
import {
  type Asker,
  type AttemptLimits,
  limitedAttempts,
  TooManyAttempts,
} from './document-attempts.ts';
import type { ClientDocument, DocumentCopies } from './document-copies.ts';
import { isListedDocument } from './document-hosts.ts';
import {
  DocumentRefused,
  DocumentUnreachable,
  fetchDocument,
  type Network,
} from './guarded-fetch.ts';
import type { RedirectPolicy } from './redirect-uris.ts';
import { temporarilyUnavailable, tooManyAttempts } from './errors.ts';
import { requestContext } from '../../http/request-context.ts';

/** A host name with a dot, no port, no query. */
const CLIENT_ID_URL = /^https:\/\/([a-z0-9-]+\.)+[a-z][a-z0-9-]*\/[^\s?#@\\]+$/;
const MAX_URL_LENGTH = 500;
const MAX_HANDED_OVER = 1000;

export type DocumentOptions = {
  copies: DocumentCopies;
  redirectPolicy: RedirectPolicy;
  /** Copies pinned by the operator: never fetched. */
  pinned: readonly { url: string; document: Record<string, unknown> }[];
  /** Hosts, or hosts with the beginning of a path, whose documents are taken; undefined for all. */
  hosts: readonly string[] | undefined;
  network: Network;
  limits: AttemptLimits;
  /** How often strangers may have documents fetched that we have no copy of. */
  rateLimit: RateLimit;
  now: () => number;
};

/** How documents are fetched, where it is not as usual: for tests, which bring a network of their own. */
export type DocumentFetching = { network?: Partial<Network>; limits?: Partial<AttemptLimits> };

export type ClientMetadataDocuments = ReturnType<typeof clientMetadataDocuments>;

/**
 * The engine's `features.clientIdMetadataDocument` and its `fetch`. The engine calls any failure of `fetch` the client's fault, so documents
 * are found in `allowFetch`, whose errors it passes on, and `fetch` hands over what was found; it has no way to the network.
 */
export function clientMetadataDocuments(options: DocumentOptions) {
  const found = new LRUCache<string, ClientDocument>({ max: MAX_HANDED_OVER });
  const fetchCurrent = limitedAttempts(
    (url) => fetchAndKeep(options, url),
    options.limits,
    options.now,
  );
  return {
    feature: {
      enabled: true,
      ack: 'draft-02',
      async allowFetch(ctx: KoaContextWithOIDC | undefined, url: string): Promise<boolean> {
        if (!CLIENT_ID_URL.test(url) || url.length > MAX_URL_LENGTH) return false;
        if (!isAcceptedUrl(options, url)) return false;
        const isNew = ctx?.oidc.route === 'authorization';
        const asker = askerAt(options, ctx ? requestContext(ctx).address : '');
        const current = (isKnown: boolean) => fetchCurrent(url, isKnown ? undefined : asker);
        const document = await findDocument(options, url, isNew ? current : undefined).catch(
          (error: unknown) => {
            throw refusalOf(error, ctx);
          },
        );
        if (document) found.set(url, document);
        return document !== undefined;
      },
      allowClient: () => true,
      // Copies are cached by us. A second cache would answer new authorizations with what connected people may still use.
      cacheDuration: { min: 0, max: 0 },
    },
    fetch: async (input: string | URL): Promise<Response> => {
      const document = found.get(String(input));
      if (!document) throw new Error('only documents that were found are handed to the engine');
      return Response.json(document);
    },
  };
}

function isAcceptedUrl({ hosts, pinned }: DocumentOptions, url: string): boolean {
  if (!hosts || pinned.some((candidate) => candidate.url === url)) return true;
  return isListedDocument(hosts, url);
}

/** Without `fetchCurrent` only what is stored: people who are connected do not depend on the document's host. */
async function findDocument(
  options: DocumentOptions,
  url: string,
  fetchCurrent?: (isKnown: boolean) => Promise<ClientDocument>,
): Promise<ClientDocument | undefined> {
  const pinned = options.pinned.find((candidate) => candidate.url === url);
  if (pinned) return checked(options, url, pinned.document);
  const copy = await options.copies.find(url);
  if (!fetchCurrent || (copy && copy.freshUntil > options.now())) return copy?.document;
  return fetchCurrent(copy !== undefined).catch((error: unknown) => {
    if (copy && error instanceof DocumentUnreachable) return copy.document;
    throw error;
  });
}

/** Times that a failure counts: whoever makes addresses up soon waits, and a host that is full of failures still has room for others. */
const FAILURE = 5;

function askerAt({ rateLimit }: DocumentOptions, address: string): Asker {
  return {
    take: (host) => rateLimit.take(address, host),
    failed: (host) => rateLimit.charge(address, host, FAILURE - 1),
  };
}

async function fetchAndKeep(options: DocumentOptions, url: string): Promise<ClientDocument> {
  const { text, cacheControl } = await fetchDocument(url, options.network);
  const document = checked(options, url, parse(text));
  await options.copies.keep(document, maxAge(cacheControl));
  return document;
}

/** What the engine answers: a fault of ours is 503, and all that kept us from the document looks the same from outside. */
function refusalOf(error: unknown, ctx: KoaContextWithOIDC | undefined): unknown {
  if (ctx && error instanceof TooManyAttempts && error.seconds !== undefined)
    return tooManyAttempts(ctx, error.seconds);
  if (error instanceof StoreUnavailable || error instanceof TooManyAttempts)
    return temporarilyUnavailable(error);
  if (error instanceof DocumentRefused || error instanceof DocumentUnreachable) {
    return unusable('could not be fetched', error);
  }
  if (error instanceof errors.InvalidClientMetadata)
    return unusable(`cannot be used: ${error.error_description}`, error);
  return error;
}

function unusable(why: string, cause: Error): Error {
  return new errors.InvalidClient(`client_id metadata document ${why}`, { cause });
}

function checked(
  options: DocumentOptions,
  url: string,
  document: Record<string, unknown>,
): ClientDocument {
  if (document.client_id !== url) {
    throw new errors.InvalidClientMetadata(
      'the client_id in the metadata document is not its address',
    );
  }
  if ('client_secret' in document) {
    throw new errors.InvalidClientMetadata('a metadata document must not carry a client_secret');
  }
  return { client_id: url, ...acceptedMetadata(document, options.redirectPolicy, url) };
}

function parse(text: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new errors.InvalidClientMetadata('the metadata document is not JSON', {
      cause: cause as Error,
    });
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value))
    return value as Record<string, unknown>;
  throw new errors.InvalidClientMetadata('the metadata document is not a JSON object');
}

/** Seconds (RFC 9111 section 5.2.2.1); 0 when it does not say. */
function maxAge(cacheControl = ''): number {
  const [, seconds] = /\bmax-age=(\d{1,8})\b/.exec(cacheControl) ?? [];
  return Number(seconds ?? 0);
}
