// What is stored of the metadata a client sends (RFC 7591 section 2): tolerant of everything real clients send, strict in what it keeps.
import { errors } from 'oidc-provider';
import { isAcceptedRedirect, type RedirectPolicy } from './redirect-uris.ts';

const AUTH_METHODS = new Set(['none', 'client_secret_basic', 'client_secret_post']);
const MAX_REDIRECT_URIS = 20;
/** Characters of all redirect addresses together: a client is read, and kept in memory, with all of them. */
const MAX_REDIRECTS_LENGTH = 8192;
const MAX_NAME_LENGTH = 80;
const UNNAMED = 'An app without a name';

type Metadata = Record<string, unknown>;

/** Exactly what is stored of a self-registered client or a metadata document; anything else was dropped. */
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
};

/**
 * Throws `invalid_redirect_uri` (the engine's code for a description that starts so) when no address is left, and `invalid_client_metadata` for an authentication method we do not have.
 * `native` is what lets the engine match loopback addresses without regard to the port.
 */
export function acceptedMetadata(
  sent: Metadata,
  policy: RedirectPolicy,
  documentUrl?: string,
): StoredMetadata {
  return {
    client_name: cleanName(sent.client_name),
    redirect_uris: acceptedRedirects(sent.redirect_uris, policy, documentUrl),
    token_endpoint_auth_method: documentUrl ? documentAuthMethod(sent) : registeredAuthMethod(sent),
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    application_type: 'native',
    ...optional('client_uri', sent.client_uri, isHttpsUrl),
    ...optional('software_id', sent.software_id, isShortText),
    ...optional('software_version', sent.software_version, isShortText),
    // RFC 9449 section 5.2: the client's own wish never to get a token without a proof.
    ...(sent.dpop_bound_access_tokens === true ? { dpop_bound_access_tokens: true } : {}),
  };
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
      'redirect_uris has no address that is accepted here: use http on localhost, 127.0.0.1 or [::1] with any port, or ask the operator to allow yours',
    );
  }
  if (accepted.join('').length > MAX_REDIRECTS_LENGTH) {
    throw new errors.InvalidClientMetadata(
      `redirect_uris must have at most ${MAX_REDIRECTS_LENGTH} characters together`,
    );
  }
  return accepted;
}

/** RFC 7591 section 2: absent means client_secret_basic. */
function registeredAuthMethod({ token_endpoint_auth_method: sent }: Metadata): string {
  if (sent === undefined || sent === null || sent === '') return 'client_secret_basic';
  if (typeof sent === 'string' && AUTH_METHODS.has(sent)) return sent;
  throw new errors.InvalidClientMetadata(
    'token_endpoint_auth_method must be none, client_secret_basic or client_secret_post',
  );
}

/** A document cannot carry a secret. One that asks for keys is used only when it also says that none will do. */
function documentAuthMethod(sent: Metadata): string {
  const { token_endpoint_auth_method: method, token_endpoint_auth_methods_supported: methods } =
    sent;
  const offered = Array.isArray(methods) ? methods : [];
  if (method === undefined || method === null || method === 'none' || offered.includes('none'))
    return 'none';
  throw new errors.InvalidClientMetadata(
    'token_endpoint_auth_method of a metadata document must be none',
  );
}

/** Control, formatting (bidirectional, zero-width), line-breaking and halved characters, and blank ones that are no spaces. */
const UNSEEN =
  /[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800\u{1D159}]/gu;
/** More would be piled over the lines above and below. */
const PILED_MARKS = /(\p{M}{4})\p{M}+/gu;
/** Alphabets with letters that look alike: a word that mixes them is made to look like another (UTS 39 section 5.1). */
const LOOK_ALIKE = ['Latin', 'Cyrillic', 'Greek', 'Armenian', 'Cherokee', 'Coptic'].map(
  (script) => new RegExp(`\\p{Script=${script}}`, 'u'),
);
const WORD = /[\p{L}\p{M}\p{N}]+/gu;
const UNITS = /[μΩ]/g;
const VISIBLE = /[\p{L}\p{N}\p{P}\p{S}]/u;

/** NFKC, only what can be seen, one line, at most 80 characters and four combining marks in a row; no name at all when it is a disguise. */
export function cleanName(sent: unknown): string {
  if (typeof sent !== 'string') return UNNAMED;
  const clean = sent
    .slice(0, 1000)
    .normalize('NFKC')
    .replace(UNSEEN, '')
    .replace(PILED_MARKS, '$1')
    .replace(/\s+/g, ' ')
    .trim();
  if (!VISIBLE.test(clean) || isDisguise(clean)) return UNNAMED;
  return [...clean].slice(0, MAX_NAME_LENGTH).join('');
}

function isDisguise(name: string): boolean {
  const words = name.replace(UNITS, '').match(WORD) ?? [];
  return words.some((word) => LOOK_ALIKE.filter((script) => script.test(word)).length > 1);
}

function optional<K extends string>(
  name: K,
  value: unknown,
  isFine: (text: string) => boolean,
): { [key in K]?: string } {
  return typeof value === 'string' && isFine(value)
    ? ({ [name]: value } as { [key in K]?: string })
    : {};
}

function isShortText(text: string): boolean {
  return /^[\x21-\x7e][\x20-\x7e]{0,199}$/.test(text);
}

function isHttpsUrl(text: string): boolean {
  return text.length <= 500 && /^https:\/\/[^\s@\\]+$/.test(text) && URL.canParse(text);
}
