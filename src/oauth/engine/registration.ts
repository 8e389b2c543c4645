// Dynamic client registration (RFC 7591), and the client metadata that registrations and metadata documents may have. Unsupported metadata is
// ignored, and the response shows what was stored.
import { randomBytes } from 'node:crypto';
import { errors, type KoaContextWithOIDC } from 'oidc-provider';
import { type App, isBlocked, listRules, UNNAMED } from '../../clients/rules.ts';
import type { Store } from '../../store/store.ts';
import { newClientSecret } from '../../clients/client-secrets.ts';
import { type ClientMetadata, DEVICE_CODE } from '../../clients/clients.ts';
import {
  ASSERTION_ALGORITHMS,
  isKeySetAddress,
  KeySetRefused,
  type PublicKey,
  publicKeys,
} from '../../settings/key-set.ts';
import { REGISTERED_AUTH_METHODS } from '../metadata.ts';
import { type EngineRequest, readAhead, startReading } from './engine-request.ts';
import { isAcceptedRedirect, type RedirectPolicy } from './redirect-uris.ts';

/**
 * The engine's `features.registration`. `requireUnblocked` rejects an app that an administrator blocked. Registrations cannot be read or
 * changed later (RFC 7592): a client registers again instead.
 */
export function registration(
  policy: RedirectPolicy,
  requireUnblocked: (app: App) => Promise<void>,
) {
  return {
    enabled: true,
    initialAccessToken: false,
    idFactory: () => randomBytes(16).toString('base64url'),
    /** The engine awaits this before it validates the body, so this rewrites the body to what we accept. */
    async issueRegistrationAccessToken(ctx: KoaContextWithOIDC): Promise<false> {
      const body = ctx.oidc.body as Record<string, unknown>;
      const accepted = acceptedMetadata(body, policy);
      const redirectUris = [body.redirect_uris].flat().filter((uri) => typeof uri === 'string');
      await requireUnblocked({ name: accepted.client_name, redirectUris });
      for (const name of Object.keys(body)) delete body[name];
      Object.assign(body, accepted);
      return false;
    },
    secretFactory: newClientSecret,
  };
}

const RULES = 'client rules';

/** Starts to read what `requireUnblocked` needs. A block that comes while the body is sent is found at the consent page. */
export function readRulesAhead(store: Store, request: EngineRequest): void {
  startReading(request, RULES, () => listRules(store));
}

/** Rejects with 403 `access_denied`. RFC 7591 section 3.2.2 has no error for it. */
export async function requireUnblocked(store: Store, app: App): Promise<void> {
  if (!isBlocked(await readAhead(RULES, () => listRules(store)), app)) return;
  throw Object.assign(new errors.AccessDenied('an administrator of this server blocked this app'), {
    status: 403,
    statusCode: 403,
  });
}

const RESPONSE_MEMBERS = [
  'client_id',
  'client_id_issued_at',
  'client_secret',
  'client_secret_expires_at',
  'client_name',
  'client_uri',
  'redirect_uris',
  'grant_types',
  'response_types',
  'token_endpoint_auth_method',
  'application_type',
  'software_id',
  'software_version',
  'dpop_bound_access_tokens',
];

/** Returns the stored metadata (RFC 7591 section 3.2.1) without empty members and engine defaults. */
export function registrationResponse(metadata: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(
    RESPONSE_MEMBERS.map((name) => [name, metadata[name]]).filter(
      ([, value]) => value !== undefined && value !== null && value !== '' && value !== false,
    ),
  );
}

const MAX_REDIRECT_URIS = 20;
/** Total characters of all redirect URIs, because a client is cached with all of them. */
const MAX_REDIRECT_URIS_LENGTH = 8192;
const MAX_NAME_LENGTH = 80;

type Metadata = Record<string, unknown>;

/** The stored metadata of a registered client or a metadata document. */
export type StoredMetadata = {
  client_name: string;
  redirect_uris: string[];
  token_endpoint_auth_method: string;
  grant_types: string[];
  response_types: string[];
  application_type: 'native';
  client_uri?: string;
  software_id?: string;
  software_version?: string;
  dpop_bound_access_tokens?: true;
  token_endpoint_auth_signing_alg?: string;
} & KeySource;

/** Public keys of a metadata document, or where they are. */
type KeySource = { jwks?: { keys: PublicKey[] }; jwks_uri?: string };

/**
 * Returns the supported part of client metadata. `documentUrl` is set for a metadata document. Throws `invalid_redirect_uri` if no redirect
 * URI is accepted (the engine derives this code from the start of the description), and `invalid_client_metadata` for an unsupported
 * authentication method. A client that asks for the device grant alone needs no redirect URI (RFC 8628). With `native`, the engine matches loopback redirect URIs with any port.
 */
export function acceptedMetadata(
  sent: Metadata,
  policy: RedirectPolicy,
  documentUrl?: string,
): StoredMetadata {
  const asksForDevices =
    policy.acceptsDevices === true &&
    Array.isArray(sent.grant_types) &&
    sent.grant_types.includes(DEVICE_CODE);
  const hasNoRedirects = sent.redirect_uris == null || isEmptyArray(sent.redirect_uris);
  const isDeviceOnly = asksForDevices && hasNoRedirects;
  if (hasNoRedirects && !isDeviceOnly) requireCodeGrant(sent);
  const redirects = isDeviceOnly ? [] : acceptedRedirects(sent.redirect_uris, policy, documentUrl);
  return {
    client_name: cleanName(sent.client_name),
    redirect_uris: redirects,
    ...(documentUrl
      ? documentAuthentication(sent)
      : { token_endpoint_auth_method: registeredAuthMethod(sent) }),
    grant_types: [
      ...(isDeviceOnly ? [] : ['authorization_code']),
      'refresh_token',
      ...(asksForDevices ? [DEVICE_CODE] : []),
    ],
    response_types: isDeviceOnly ? [] : ['code'],
    application_type: 'native',
    ...optional('client_uri', sent.client_uri, isHttpsUrl),
    ...optional('software_id', sent.software_id, isShortText),
    ...optional('software_version', sent.software_version, isShortText),
    // RFC 9449 section 5.2.
    ...(sent.dpop_bound_access_tokens === true ? { dpop_bound_access_tokens: true } : {}),
  };
}

/**
 * Returns stored metadata without what the settings no longer accept, so that the client goes on with the rest: without a redirect URI, with its
 * refresh tokens. `documentUrl` is set for a metadata document.
 */
export function stillAccepted<T extends ClientMetadata>(
  stored: T,
  policy: RedirectPolicy,
  documentUrl?: string,
): T {
  const redirects = (stored.redirect_uris ?? []).filter((uri) =>
    isAcceptedRedirect(policy, uri, documentUrl),
  );
  const isAccepted: Record<string, boolean> = {
    authorization_code: redirects.length > 0,
    [DEVICE_CODE]: policy.acceptsDevices === true,
  };
  return {
    ...stored,
    redirect_uris: redirects,
    grant_types: (stored.grant_types ?? []).filter((type) => isAccepted[type] ?? true),
    response_types: redirects.length > 0 ? ['code'] : [],
  };
}

/** Without redirect URIs, the grant types tell what is wrong. RFC 7591 section 2: absent means authorization_code. */
function requireCodeGrant({ grant_types: types }: Metadata): void {
  if (!Array.isArray(types) || types.length === 0 || types.includes('authorization_code')) return;
  if (types.includes(DEVICE_CODE))
    throw new errors.InvalidClientMetadata('the device grant is switched off on this server');
  throw new errors.InvalidClientMetadata(
    'grant_types must have authorization_code, with redirect_uris: a client for client_credentials cannot register itself, an administrator creates it',
  );
}

function isEmptyArray(value: unknown): boolean {
  return Array.isArray(value) && value.length === 0;
}

function acceptedRedirects(sent: unknown, policy: RedirectPolicy, documentUrl?: string): string[] {
  if (!Array.isArray(sent) || sent.length > MAX_REDIRECT_URIS) {
    throw new errors.InvalidClientMetadata(
      `redirect_uris must be an array of 1 to ${MAX_REDIRECT_URIS} addresses`,
    );
  }
  const isAccepted = (uri: unknown) => isAcceptedRedirect(policy, uri, documentUrl);
  const accepted: string[] = [...new Set(sent.filter(isAccepted))];
  if (accepted.length === 0) {
    throw new errors.InvalidClientMetadata(
      'redirect_uris has no accepted address: use http on localhost, 127.0.0.1 or [::1] with any port, or ask the operator to allow yours',
    );
  }
  if (accepted.join('').length > MAX_REDIRECT_URIS_LENGTH) {
    throw new errors.InvalidClientMetadata(
      `redirect_uris must have at most ${MAX_REDIRECT_URIS_LENGTH} characters in total`,
    );
  }
  return accepted;
}

/** RFC 7591 section 2: absent means client_secret_basic. */
function registeredAuthMethod({ token_endpoint_auth_method: sent }: Metadata): string {
  if (sent === undefined || sent === null || sent === '') return 'client_secret_basic';
  const method = REGISTERED_AUTH_METHODS.find((supported) => supported === sent);
  if (method) return method;
  throw new errors.InvalidClientMetadata(
    'token_endpoint_auth_method must be none, client_secret_basic or client_secret_post',
  );
}

type Authentication = Pick<
  StoredMetadata,
  'token_endpoint_auth_method' | 'token_endpoint_auth_signing_alg'
> &
  KeySource;

/**
 * A document cannot contain a secret. A client that supports `none` and also has keys may use either: the engine's method is then `none`, and
 * `authenticateByKeys` changes it for requests with an assertion.
 */
function documentAuthentication(sent: Metadata): Authentication {
  const { token_endpoint_auth_method: method, token_endpoint_auth_methods_supported: methods } =
    sent;
  const offered: unknown[] = [method, ...(Array.isArray(methods) ? methods : [])];
  const hasKeys = offered.includes('private_key_jwt');
  const isPublic = offered.includes('none') || ((method ?? undefined) === undefined && !hasKeys);
  if (isPublic) return { token_endpoint_auth_method: 'none', ...(hasKeys ? usableKeys(sent) : {}) };
  if (!hasKeys)
    throw new errors.InvalidClientMetadata(
      'token_endpoint_auth_method of a metadata document must be none or private_key_jwt',
    );
  return {
    token_endpoint_auth_method: 'private_key_jwt',
    ...keySource(sent),
    ...signingAlgorithm(sent),
  };
}

function usableKeys(sent: Metadata): KeySource {
  try {
    return keySource(sent);
  } catch {
    return {};
  }
}

/** RFC 7591 section 2: `jwks` or `jwks_uri`, never both. */
function keySource({ jwks: set, jwks_uri: address }: Metadata): KeySource {
  const jwks = set ?? undefined;
  const uri = address ?? undefined;
  if ((jwks === undefined) === (uri === undefined))
    throw new errors.InvalidClientMetadata(
      'private_key_jwt requires either jwks or jwks_uri in the metadata document',
    );
  if (uri !== undefined) {
    if (isKeySetAddress(uri)) return { jwks_uri: uri };
    throw new errors.InvalidClientMetadata('jwks_uri must be an https address without a port');
  }
  try {
    return { jwks: { keys: publicKeys(jwks) } };
  } catch (error) {
    if (error instanceof KeySetRefused) throw new errors.InvalidClientMetadata(error.message);
    throw error;
  }
}

function signingAlgorithm({ token_endpoint_auth_signing_alg: sent }: Metadata): {
  token_endpoint_auth_signing_alg?: string;
} {
  if (sent === undefined || sent === null) return {};
  const algorithm = ASSERTION_ALGORITHMS.find((supported) => supported === sent);
  if (algorithm) return { token_endpoint_auth_signing_alg: algorithm };
  throw new errors.InvalidClientMetadata(
    `token_endpoint_auth_signing_alg must be one of ${ASSERTION_ALGORITHMS.join(', ')}`,
  );
}

/** Control, formatting (bidirectional, zero-width) and line-breaking characters, unpaired surrogates, and blanks other than spaces. */
const INVISIBLE =
  /[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800\u{1D159}]/gu;
/** More combining marks would overlap the lines above and below. */
const EXCESS_MARKS = /(\p{M}{4})\p{M}+/gu;
/** Scripts with similar letters. A word that mixes them may imitate another word (UTS 39 section 5.1). */
const CONFUSABLE_SCRIPTS = ['Latin', 'Cyrillic', 'Greek', 'Armenian', 'Cherokee', 'Coptic'].map(
  (script) => new RegExp(`\\p{Script=${script}}`, 'u'),
);
const WORD = /[\p{L}\p{M}\p{N}]+/gu;
/** Greek letters in units of measurement. */
const UNITS = /[μΩ]/g;
const VISIBLE = /[\p{L}\p{N}\p{P}\p{S}]/u;

/**
 * Returns the name in NFKC on one line, without invisible characters, with at most 80 characters and four combining marks in a row. Returns
 * a placeholder if the name is empty or mixes confusable scripts.
 */
export function cleanName(sent: unknown): string {
  if (typeof sent !== 'string') return UNNAMED;
  const clean = sent
    .slice(0, 1000)
    .normalize('NFKC')
    .replace(INVISIBLE, '')
    .replace(EXCESS_MARKS, '$1')
    .replace(/\s+/g, ' ')
    .trim();
  if (!VISIBLE.test(clean) || isConfusable(clean)) return UNNAMED;
  return [...clean].slice(0, MAX_NAME_LENGTH).join('');
}

function isConfusable(name: string): boolean {
  const words = name.replace(UNITS, '').match(WORD) ?? [];
  return words.some((word) => CONFUSABLE_SCRIPTS.filter((script) => script.test(word)).length > 1);
}

function optional<K extends string>(
  name: K,
  value: unknown,
  isValid: (text: string) => boolean,
): { [key in K]?: string } {
  return typeof value === 'string' && isValid(value)
    ? ({ [name]: value } as { [key in K]?: string })
    : {};
}

function isShortText(text: string): boolean {
  return /^[\x21-\x7e][\x20-\x7e]{0,199}$/.test(text);
}

function isHttpsUrl(text: string): boolean {
  return text.length <= 500 && /^https:\/\/[^\s@\\]+$/.test(text) && URL.canParse(text);
}
