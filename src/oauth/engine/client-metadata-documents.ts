// Client ID metadata documents (draft-ietf-oauth-client-id-metadata-document): fetched for new authorizations and stored for connected clients.
import { setTimeout as delay } from 'node:timers/promises';
import { errors, type KoaContextWithOIDC } from 'oidc-provider';
import { isObject } from '../../json-values.ts';
import { documentKey, documentVersion, type StoredDocument } from '../../clients/clients.ts';
import { isListedDocument } from '../../settings/document-hosts.ts';
import type { RateLimit } from '../../http/rate-limits.ts';
import { requestContext } from '../../http/request-context.ts';
import { isClientIdUrl } from '../../settings/client-id-url.ts';
import { JWT_BEARER } from '../metadata.ts';
import { lruCache } from '../../lru-cache.ts';
import { type Store, StoreUnavailable } from '../../store/store.ts';
import { type ClientLifetimes, clientRecords } from './clients.ts';
import { temporarilyUnavailable, tooManyAttempts } from './errors.ts';
import type { Network } from '../../http/guarded-request.ts';
import {
  DocumentRefused,
  DocumentUnreachable,
  fetchDocument,
  TIMEOUT_SECONDS,
} from './guarded-fetch.ts';
import type { RedirectPolicy } from './redirect-uris.ts';
import { acceptedMetadata, stillAccepted, type StoredMetadata } from './registration.ts';

const MAX_FOUND = 1000;

export type ClientDocument = StoredMetadata & { client_id: string };

export type DocumentOptions = {
  copies: DocumentCopies;
  redirectPolicy: RedirectPolicy;
  /** Documents in the settings. They are never fetched. */
  pinned: readonly { url: string; document: Record<string, unknown> }[];
  /** Accepts only documents on these hosts, or on a host below a path. Undefined accepts all. */
  hosts: readonly string[] | undefined;
  /** Documents of clients that may present assertions of trusted issuers. */
  trusted: ReadonlySet<string>;
  /** Accepts no unlisted document for new authorizations. Connected clients go on. */
  isClosed: boolean;
  network: Network;
  limits: FetchLimits;
  /** Limits how often an address causes fetches of documents that have no copy. */
  rateLimit: RateLimit;
  now: () => number;
};

/** Replaces the network and the limits in tests. */
export type DocumentFetching = { network?: Partial<Network>; limits?: Partial<FetchLimits> };

export type ClientMetadataDocuments = ReturnType<typeof clientMetadataDocuments>;

/**
 * The engine's `features.clientIdMetadataDocument` and its `fetch`. The engine reports every error of `fetch` as the client's fault, but
 * passes on errors of `allowFetch`. So `allowFetch` finds the document, and `fetch` only returns what was found.
 */
export function clientMetadataDocuments(options: DocumentOptions) {
  const { trusted } = options;
  const found = lruCache<ClientDocument>(MAX_FOUND);
  const fetchCurrent = limitFetches(
    (url) => fetchAndSave(options, url),
    options.limits,
    options.now,
  );
  return {
    feature: {
      enabled: true,
      ack: 'draft-02',
      async allowFetch(ctx: KoaContextWithOIDC | undefined, url: string): Promise<boolean> {
        if (!isClientIdUrl(url)) return false;
        const startsNew = ctx !== undefined && startsAuthorization(ctx);
        // A document of a client that only presents assertions may still not be connected by people.
        const isAccepted = trusted.has(url) && !startsNew;
        if (!isAccepted && !isAcceptedUrl(options, url, startsNew)) return false;
        const mayFetch =
          ctx !== undefined &&
          (startsNew ? !isSentByPage(ctx) : presentsAssertion(ctx, trusted, url));
        const quota = addressQuota(options, ctx ? requestContext(ctx).address : '');
        const current = (isKnown: boolean) => fetchCurrent(url, isKnown ? undefined : quota);
        const document = await findDocument(options, url, mayFetch ? current : undefined).catch(
          (error: unknown) => {
            throw toEngineError(error, ctx);
          },
        );
        if (document) found.set(url, document);
        return document !== undefined;
      },
      allowClient: () => true,
      // No cache in the engine: it would serve new authorizations a stale copy that only connected clients may use.
      cacheDuration: { min: 0, max: 0 },
    },
    fetch: async (input: string | URL): Promise<Response> => {
      const document = found.get(String(input));
      if (!document) throw new Error('the engine fetched a document that allowFetch has not found');
      return Response.json(document);
    },
  };
}

/** The token endpoint fetches only the documents of clients that present assertions of trusted issuers. */
function presentsAssertion(
  { oidc }: KoaContextWithOIDC,
  trusted: ReadonlySet<string>,
  url: string,
): boolean {
  return oidc.route === 'token' && oidc.params?.grant_type === JWT_BEARER && trusted.has(url);
}

function startsAuthorization({ oidc: { route } }: KoaContextWithOIDC): boolean {
  return route === 'authorization' || route === 'device_authorization';
}

/** Web pages cannot make us fetch for a device: they would use up the limit of their visitors' addresses. */
function isSentByPage(ctx: KoaContextWithOIDC): boolean {
  return ctx.oidc.route === 'device_authorization' && ctx.get('origin') !== '';
}

function isAcceptedUrl(
  { hosts, pinned, isClosed }: DocumentOptions,
  url: string,
  isNew: boolean,
): boolean {
  if (!hosts && !(isClosed && isNew)) return true;
  if (pinned.some((candidate) => candidate.url === url)) return true;
  return isListedDocument(hosts ?? [], url);
}

/** Without `fetchCurrent`, reads only the store, so that connected clients do not depend on the document's host. */
async function findDocument(
  options: DocumentOptions,
  url: string,
  fetchCurrent?: (isKnown: boolean) => Promise<ClientDocument>,
): Promise<ClientDocument | undefined> {
  const pinned = options.pinned.find((candidate) => candidate.url === url);
  if (pinned) return validDocument(options, url, pinned.document);
  const copy = await options.copies.find(url);
  const known =
    copy && withAssertions(options, stillAccepted(copy.document, options.redirectPolicy, url));
  if (!fetchCurrent || (copy && copy.freshUntil > options.now())) return known;
  return fetchCurrent(copy !== undefined).catch((error: unknown) => {
    if (known && error instanceof DocumentUnreachable) return known;
    throw error;
  });
}

/** A failed fetch counts this many times, so that requests for made-up URLs soon reach the limit and leave the host to others. */
const FAILURE_WEIGHT = 5;

/** Of a client address that makes Gatehouse fetch something for the first time. */
export function addressQuota(
  { rateLimit }: Pick<DocumentOptions, 'rateLimit'>,
  address: string,
): FetchQuota {
  return {
    take: (host) => rateLimit.consume(address, host),
    chargeFailure: (host) => rateLimit.penalize(address, host, FAILURE_WEIGHT - 1),
  };
}

async function fetchAndSave(options: DocumentOptions, url: string): Promise<ClientDocument> {
  const { text, cacheControl } = await fetchDocument(url, options.network);
  const document = validDocument(options, url, parse(text));
  await options.copies.save(document, maxAge(cacheControl));
  return document;
}

/** Store errors become 503. All fetch errors look the same to the client, which must not learn about our network. */
function toEngineError(error: unknown, ctx: KoaContextWithOIDC | undefined): unknown {
  if (ctx && error instanceof TooManyFetches && error.seconds !== undefined)
    return tooManyAttempts(ctx, error.seconds);
  if (error instanceof StoreUnavailable || error instanceof TooManyFetches)
    return temporarilyUnavailable(error);
  if (error instanceof DocumentRefused || error instanceof DocumentUnreachable)
    return invalidClient('could not be fetched', error);
  if (error instanceof errors.InvalidClientMetadata)
    return invalidClient(`cannot be used: ${error.error_description}`, error);
  return error;
}

function invalidClient(problem: string, cause: Error): Error {
  return new errors.InvalidClient(`client_id metadata document ${problem}`, { cause });
}

function validDocument(
  options: DocumentOptions,
  url: string,
  document: Record<string, unknown>,
): ClientDocument {
  if (document.client_id !== url) {
    throw new errors.InvalidClientMetadata(
      'client_id in the metadata document must be the URL of the document',
    );
  }
  if ('client_secret' in document) {
    throw new errors.InvalidClientMetadata('a metadata document must not contain a client_secret');
  }
  const accepted = acceptedMetadata(document, options.redirectPolicy, url);
  return withAssertions(options, { client_id: url, ...accepted });
}

/** Only clients of trusted issuers may present their assertions. A copy may be older than the settings. */
function withAssertions({ trusted }: DocumentOptions, document: ClientDocument): ClientDocument {
  const grantTypes = document.grant_types.filter((type) => type !== JWT_BEARER);
  if (trusted.has(document.client_id)) grantTypes.push(JWT_BEARER);
  return { ...document, grant_types: grantTypes };
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
  if (isObject(value)) return value;
  throw new errors.InvalidClientMetadata('the metadata document is not a JSON object');
}

/** In seconds (RFC 9111 section 5.2.2.1). 0 without a max-age. */
export function maxAge(cacheControl = ''): number {
  const [, seconds] = /\bmax-age=(\d{1,8})\b/.exec(cacheControl) ?? [];
  return Number(seconds ?? 0);
}

/** The last valid copy of each document, in the store and cached by this process for the time that the store is unavailable. */
export type DocumentCopies = {
  /** Rejects with StoreUnavailable if the store is unavailable and the cached copy is older than an hour. */
  find: (url: string) => Promise<DocumentCopy | undefined>;
  /** `freshFor` in seconds, limited to 5 minutes at least and a day at most. */
  save: (document: ClientDocument, freshFor: number) => Promise<void>;
  /** Call after consent, with the version of the document that the person approved, and after refreshes. */
  touch: (url: string, version?: string) => Promise<void>;
};

export type DocumentCopy = StoredDocument<ClientDocument>;

const MIN_FRESH_SECONDS = 300;
const MAX_FRESH_SECONDS = 86_400;
const CACHE_SECONDS = 60;
const STALE_IF_ERROR_SECONDS = 3600;
/** The longest time from the authorization request to the code exchange. The copy must not expire meanwhile. */
const AUTHORIZATION_SECONDS = 1900;

export function documentCopies(
  store: Store,
  lifetimes: ClientLifetimes,
  now: () => number,
): DocumentCopies {
  const records = clientRecords<DocumentCopy>(store, documentKey, lifetimes, {
    freshFor: CACHE_SECONDS,
    staleIfErrorFor: STALE_IF_ERROR_SECONDS,
    now,
  });
  const { unusedClient, usedClient } = lifetimes;
  const maxFresh = Math.max(
    MIN_FRESH_SECONDS,
    Math.min(MAX_FRESH_SECONDS, unusedClient - AUTHORIZATION_SECONDS),
  );
  const timeToLive = (usedAt: number | undefined) =>
    usedAt === undefined
      ? unusedClient
      : Math.max(unusedClient, Math.ceil(usedAt + usedClient - now()));
  return {
    find: records.read,
    touch: records.touch,
    async save(document, freshFor) {
      const url = document.client_id;
      const freshUntil = now() + Math.min(maxFresh, Math.max(MIN_FRESH_SECONDS, freshFor));
      await store.update<DocumentCopy>(documentKey(url), (earlier) => {
        const { usedAt, allowedAt } = earlier ?? {};
        const isKnown = usedAt !== undefined || allowedAt !== undefined;
        const allowedAs =
          earlier?.allowedAs ??
          (earlier && isKnown ? documentVersion(earlier.document) : undefined);
        const kept = {
          ...(usedAt === undefined ? {} : { usedAt }),
          ...(allowedAt === undefined ? {} : { allowedAt }),
          ...(allowedAs === undefined ? {} : { allowedAs }),
        };
        return { value: { document, freshUntil, ...kept }, ttl: timeToLive(usedAt ?? allowedAt) };
      });
      records.drop(url);
    },
  };
}

/** Too many fetches, of this process or of this address. With the seconds to wait if it is the address. */
export class TooManyFetches extends DocumentUnreachable {
  readonly seconds: number | undefined;

  constructor(message: string, seconds?: number) {
    super(message);
    this.seconds = seconds;
  }
}

/** The rate limit of the client address that causes a fetch. */
export type FetchQuota = {
  /** Counts a fetch from this host. Resolves to the seconds to wait if it exceeds the limit. */
  take: (host: string) => Promise<number | undefined>;
  chargeFailure: (host: string) => Promise<void>;
};

/** Limits of this process, because anonymous requests choose what it fetches. */
export type FetchLimits = {
  maxConcurrent: number;
  maxConcurrentPerHost: number;
  maxPerMinutePerHost: number;
  /** Failures take at least this long, so that their timing reveals nothing about our network. */
  minFailureSeconds: number;
  /** A failed fetch is not repeated for this long. */
  failureCacheSeconds: number;
};

export const FETCH_LIMITS: FetchLimits = {
  maxConcurrent: 64,
  maxConcurrentPerHost: 4,
  maxPerMinutePerHost: 300,
  minFailureSeconds: TIMEOUT_SECONDS,
  failureCacheSeconds: 60,
};

const MAX_CACHED_FAILURES = 5000;

/**
 * Wraps `fetch` with the limits. Concurrent fetches of one URL share a request. Rejects with TooManyFetches, or with the error of this or an
 * earlier fetch.
 */
export function limitFetches<T>(
  fetch: (url: string) => Promise<T>,
  limits: FetchLimits,
  now: () => number,
): (url: string, quota?: FetchQuota) => Promise<T> {
  const failures = lruCache<{ error: unknown; at: number }>(MAX_CACHED_FAILURES);
  const inProgress = new Map<string, Promise<T>>();
  const countFetch = hostCounter(limits.maxPerMinutePerHost, now);

  const start = (url: string, quota?: FetchQuota) => {
    const { host } = new URL(url);
    requireCapacity(inProgress, host, limits);
    countFetch(host);
    const fetching = delayFailure(fetch(url), limits.minFailureSeconds, (error) => {
      failures.set(url, { error, at: now() });
      void quota?.chargeFailure(host);
    }).finally(() => inProgress.delete(url));
    inProgress.set(url, fetching);
    return fetching;
  };
  const requireNoFailure = (url: string) => {
    const failure = failures.get(url);
    if (failure && now() - failure.at < limits.failureCacheSeconds) throw failure.error;
  };

  return async (url, quota) => {
    requireNoFailure(url);
    const fetching = inProgress.get(url);
    if (fetching) return fetching;
    const wait = await quota?.take(new URL(url).host);
    if (wait !== undefined)
      throw new TooManyFetches('too many metadata documents were requested', wait);
    requireNoFailure(url);
    return inProgress.get(url) ?? start(url, quota);
  };
}

function requireCapacity(
  inProgress: ReadonlyMap<string, unknown>,
  host: string,
  { maxConcurrent, maxConcurrentPerHost }: FetchLimits,
): void {
  const sameHost = [...inProgress.keys()].filter((url) => new URL(url).host === host);
  if (inProgress.size >= maxConcurrent || sameHost.length >= maxConcurrentPerHost)
    throw new TooManyFetches('too many documents are being fetched');
}

const MINUTE_SECONDS = 60;
const MAX_COUNTED_HOSTS = 5000;

/** Counts fetches by host in fixed windows of a minute. */
function hostCounter(maxPerMinute: number, now: () => number): (host: string) => void {
  const counts = lruCache<{ since: number; count: number }>(MAX_COUNTED_HOSTS);
  return (host) => {
    const last = counts.get(host);
    const current = last && now() - last.since < MINUTE_SECONDS ? last : { since: now(), count: 0 };
    if (current.count >= maxPerMinute)
      throw new TooManyFetches('too many documents were fetched from this host');
    counts.set(host, { ...current, count: current.count + 1 });
  };
}

/** Store errors are passed on at once, because they are not failures of the document. */
async function delayFailure<T>(
  fetching: Promise<T>,
  seconds: number,
  onFailure: (error: unknown) => void,
): Promise<T> {
  const startedAt = performance.now();
  try {
    return await fetching;
  } catch (error) {
    if (error instanceof StoreUnavailable) throw error;
    await delay(Math.max(0, seconds * 1000 - (performance.now() - startedAt)));
    onFailure(error);
    throw error;
  }
}

/** Hosts where anyone can publish a document. */
const SHARED_HOSTS = [
  'bitbucket.org',
  'cdn.jsdelivr.net',
  'codeberg.org',
  'docs.google.com',
  'drive.google.com',
  'dropbox.com',
  'dropboxusercontent.com',
  'firebasestorage.googleapis.com',
  'github.com',
  'githubusercontent.com',
  'gitlab.com',
  'huggingface.co',
  'pastebin.com',
  'storage.googleapis.com',
  'unpkg.com',
];
/** S3 with the bucket in the path, including dual-stack and FIPS endpoints. */
const SHARED_S3_HOST = /^s3[.-]([a-z0-9-]+\.)*amazonaws\.com(\.cn)?$/;

/** Whether the host of the client id identifies the publisher of the client. */
export function isIdentifiedByHost(clientId: string): boolean {
  return clientId.startsWith('https://') && !isSharedHost(new URL(clientId).host);
}

function isSharedHost(host: string): boolean {
  const isListed = SHARED_HOSTS.some((name) => host === name || host.endsWith(`.${name}`));
  return isListed || SHARED_S3_HOST.test(host);
}
