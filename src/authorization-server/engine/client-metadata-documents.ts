// Client ID metadata documents (draft-ietf-oauth-client-id-metadata-document): fetched with care, checked, shared, kept for bad days.
import { errors, type KoaContextWithOIDC } from 'oidc-provider';
import type { Store } from '../../store/store.ts';
import { acceptedMetadata, type StoredMetadata } from './client-metadata.ts';
import type { RedirectPolicy } from './redirect-uris.ts';

const MAX_BYTES = 5 * 1024;
const FRESH_MIN = 300;
const FRESH_MAX = 86_400;
const KEPT = 90 * 86_400;
const ENGINE_CACHE = 60;
const CLIENT_ID_URL = /^https:\/\/([a-z0-9-]+\.)+[a-z][a-z0-9-]*\/[^\s?#@\\]+$/;
const MAX_URL_LENGTH = 500;

/** The last good copy; `freshUntil` in seconds. */
type Copy = { document: StoredMetadata & { client_id: string }; freshUntil: number };

export type DocumentOptions = {
  store: Store;
  redirectPolicy: RedirectPolicy;
  /** Copies pinned by the operator: never fetched. */
  pinned: readonly { url: string; document: Record<string, unknown> }[];
  now: () => number;
};

type Fetch = (url: string | URL, options: RequestInit) => Promise<Response>;

const documentKey = (url: string) => `metadata-document:${url}`;

/** The engine's `features.clientIdMetadataDocument` and the `fetch` behind it. */
export function clientMetadataDocuments(options: DocumentOptions) {
  return {
    feature: {
      enabled: true,
      ack: 'draft-02',
      /** A host name with a dot, no port, no query: and at the token endpoint only documents of people who are connected. */
      async allowFetch(ctx: KoaContextWithOIDC | undefined, url: string): Promise<boolean> {
        if (!CLIENT_ID_URL.test(url) || url.length > MAX_URL_LENGTH) return false;
        return (
          ctx?.oidc.route === 'authorization' ||
          isPinned(options, url) ||
          (await findCopy(options, url)) !== undefined
        );
      },
      allowClient: () => true,
      cacheDuration: { min: ENGINE_CACHE, max: ENGINE_CACHE },
    },
    fetch: documentFetch(options),
  };
}

/** Answers with the accepted part of the document: pinned, shared copy while fresh, fetched, or the last good copy when that fails. */
function documentFetch(options: DocumentOptions): Fetch {
  return async (input, request) => {
    const url = String(input);
    const pinned = options.pinned.find((candidate) => candidate.url === url);
    if (pinned) return Response.json(checked(options, url, pinned.document));
    const copy = await findCopy(options, url);
    if (copy && copy.freshUntil > options.now()) return Response.json(copy.document);
    try {
      return Response.json(await fetchDocument(options, url, request));
    } catch (error) {
      if (copy && !(error instanceof errors.OIDCProviderError)) return Response.json(copy.document);
      throw error;
    }
  };
}

async function fetchDocument(
  options: DocumentOptions,
  url: string,
  request: RequestInit,
): Promise<Copy['document']> {
  // The engine's request carries the dispatcher that refuses special-use addresses: it must reach the network as it is.
  const response = await fetch(url, request);
  if (response.status !== 200)
    throw new Error(`the document was answered with status ${response.status}`);
  if (!/^application\/([\w.+-]+\+)?json\b/i.test(response.headers.get('content-type') ?? '')) {
    throw new errors.InvalidClientMetadata('the metadata document is not JSON');
  }
  const document = checked(options, url, parse(await readLimited(response)));
  const freshUntil = options.now() + freshness(response.headers.get('cache-control'));
  await options.store.set<Copy>(documentKey(url), { document, freshUntil }, KEPT);
  return document;
}

function checked(
  options: DocumentOptions,
  url: string,
  document: Record<string, unknown>,
): Copy['document'] {
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

async function readLimited(response: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let received = 0;
  for await (const chunk of response.body ?? []) {
    received += chunk.length;
    if (received > MAX_BYTES)
      throw new errors.InvalidClientMetadata('the metadata document is larger than 5 kB');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

/** Seconds, within bounds of our own (RFC 9111 section 5.2.2.1). */
function freshness(cacheControl: string | null): number {
  const [, maxAge] = /\bmax-age=(\d{1,8})\b/.exec(cacheControl ?? '') ?? [];
  return Math.min(FRESH_MAX, Math.max(FRESH_MIN, Number(maxAge ?? FRESH_MIN)));
}

function isPinned({ pinned }: DocumentOptions, url: string): boolean {
  return pinned.some((candidate) => candidate.url === url);
}

async function findCopy({ store }: DocumentOptions, url: string): Promise<Copy | undefined> {
  return (await store.get<Copy>(documentKey(url)))?.value;
}
