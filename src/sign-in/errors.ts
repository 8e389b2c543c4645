// Classifies an identity provider's errors (RFC 6749 sections 4.1.2.1 and 5.2) and maps them to errors with a page.
import * as openid from 'openid-client';
import { HttpError, unavailable } from '../http/errors.ts';
import { isObject } from '../json-values.ts';
import { printable } from '../printable-text.ts';
import type { IdentityProvider as IdentityProviderSettings } from '../settings/identity-provider.ts';
import { clientAuthenticationMethod } from './discovered-choices.ts';
import { rootMessage } from '../error-causes.ts';
import { tlsFault } from '../tls-errors.ts';

/** Key of the page's texts if the provider is unavailable. */
export const UNAVAILABLE = 'sign_in_unavailable';
/** Key of the page's texts if the settings or the registration at the provider are wrong. */
export const NOT_SET_UP = 'sign_in_not_set_up';
/** Key of the page's texts if the person can start again. */
export const STOPPED = 'sign_in_stopped';

/**
 * `stopped`: the person can start again. `client`: the provider refuses Gatehouse itself, so nobody can sign in until the settings or the
 * registration are corrected. `unavailable`: a temporary fault. `untrusted`: a response that fails validation.
 */
export type ProviderErrorKind = 'stopped' | 'client' | 'unavailable' | 'untrusted';

/** `code`, `subcode` and `description` come from the provider, truncated and without control characters. */
export type ProviderError = {
  kind: ProviderErrorKind;
  code?: string;
  /** Microsoft Entra ID's `suberror`, or Google's `error_subtype`. */
  subcode?: string;
  description?: string;
  /** HTTP status of the response. */
  status?: number;
};

const MAX_CODE_LENGTH = 64;
const MAX_DESCRIPTION_LENGTH = 200;

/** The code has expired, was used or never existed; the client was accepted. */
const INVALID_CODE = ['invalid_grant', 'bad_verification_code'];
const PERSON_STOPPED = [
  'access_denied',
  'account_selection_required',
  'consent_required',
  'interaction_required',
  'login_required',
  'mfa_required',
  'unmet_authentication_requirements',
  // GitHub.
  'unverified_user_email',
];
const TEMPORARY = ['server_error', 'slow_down', 'temporarily_unavailable', 'too_many_requests'];
/** Some providers limit rates with their own error codes, and status 400 or 403. */
const RATE_LIMITED = /rate.?(limit|exceeded)|too.?many|throttl|quota/i;
/** Returned by an authorization endpoint that rejects the client or its request. */
const CLIENT_REJECTED = [
  'application_suspended',
  'incorrect_client_credentials',
  'invalid_client',
  'invalid_redirect_uri',
  'invalid_request',
  'invalid_request_object',
  'invalid_request_uri',
  'invalid_scope',
  'redirect_uri_mismatch',
  'registration_not_supported',
  'request_not_supported',
  'request_uri_not_supported',
  'unauthorized_client',
  'unsupported_response_mode',
  'unsupported_response_type',
];

/** `failure` is what openid-client threw for an authorization response or a token request. */
export async function readProviderError(
  failure: unknown,
  { clientSecret }: Pick<IdentityProviderSettings, 'clientSecret'>,
): Promise<ProviderError> {
  if (failure instanceof openid.AuthorizationResponseError) {
    return {
      kind: kindOfAuthorizationError(failure.error),
      ...codeAndDescription(failure, clientSecret),
    };
  }
  const { body, status } = await responseOf(failure);
  const error = codeAndDescription(body, clientSecret);
  const kind = kindOfTokenError(failure, error, status);
  return { kind, ...error, ...(status === undefined ? {} : { status }) };
}

/** For the log and for operators, for example `invalid_client (Unknown secret)` or `HTTP 404`. */
export function describeProviderError({ code, description, status }: ProviderError): string {
  if (code === undefined) return status === undefined ? 'no answer' : `HTTP ${status}`;
  return description === undefined ? code : `${code} (${description})`;
}

/** The same, with the innermost cause if there was no response. */
export function describeFailure(error: ProviderError, cause: unknown): string {
  const { code, status } = error;
  if (code !== undefined || status !== undefined) return describeProviderError(error);
  const fault = tlsFault(cause);
  return fault ? `it ${fault.what}: ${fault.remedy}` : rootMessage(cause);
}

/** Returned by a token endpoint that rejects the client. */
const CLIENT_REJECTED_AT_TOKEN = [
  'application_suspended',
  'incorrect_client_credentials',
  'invalid_client',
  'invalid_redirect_uri',
  'redirect_uri_mismatch',
  'unauthorized_client',
  'unsupported_grant_type',
];
/** Some providers return `invalid_request` to a client without a secret and name the cause only in the description. */
const LACKS_AUTHENTICATION = /secret|assertion|credential|client.?auth/i;

/** Whether a token request failed because of the client or the address, and not because of its code or refresh token. */
export function isClientRejected({ code = '', description = '', status }: ProviderError): boolean {
  return (
    status === 401 ||
    isWrongEndpoint(status) ||
    CLIENT_REJECTED_AT_TOKEN.includes(code) ||
    (code === 'invalid_request' && LACKS_AUTHENTICATION.test(description))
  );
}

/** Redirects are not followed. */
function isWrongEndpoint(status = 0): boolean {
  return (status >= 300 && status < 400) || [404, 405, 410].includes(status);
}

/** Whether the provider accepted the client and rejected only the code. */
export function isInvalidCode({ code }: ProviderError): boolean {
  return code !== undefined && INVALID_CODE.includes(code);
}

function kindOfAuthorizationError(code: string): ProviderErrorKind {
  if (TEMPORARY.includes(code)) return 'unavailable';
  return CLIENT_REJECTED.includes(code) ? 'client' : 'stopped';
}

/** 401 means failed client authentication (RFC 6749 section 5.2). Some providers use their own error code for it. */
function kindOfTokenError(
  failure: unknown,
  { code, description }: Omit<ProviderError, 'kind'>,
  status: number | undefined,
): ProviderErrorKind {
  if (code !== undefined && INVALID_CODE.includes(code)) return 'stopped';
  if (code !== undefined && RATE_LIMITED.test(`${code} ${description}`)) return 'unavailable';
  if (isTemporary(failure, code, status)) return 'unavailable';
  if (status === 401) return 'client';
  if (code !== undefined) return PERSON_STOPPED.includes(code) ? 'stopped' : 'client';
  if (status !== undefined && status >= 300) return 'client';
  return 'untrusted';
}

function isTemporary(
  failure: unknown,
  code: string | undefined,
  status: number | undefined,
): boolean {
  if (code !== undefined && TEMPORARY.includes(code)) return true;
  if (status !== undefined) return status >= 500 || status === 408 || status === 429;
  // All other errors are network errors.
  return !(failure instanceof openid.ClientError) || failure.code === 'OAUTH_TIMEOUT';
}

/** Messages of openid-client about an ID token that no known key has signed. */
const KEY_FAILED = /no applicable keys found|signature verification failed/;

/** Whether a change of the discovery document or of the keys can explain the failure. After a timeout, there is no time to read them. */
export function mayBeOutdated(failure: unknown): boolean {
  const response = failure instanceof openid.ClientError ? failure.cause : failure;
  const hasStatus = response instanceof Response || response instanceof openid.ResponseBodyError;
  if (hasStatus) return isWrongEndpoint(response.status) || response.status >= 500;
  return failure instanceof TypeError || KEY_FAILED.test(rootMessage(response));
}

type ProviderResponse = { body?: object | undefined; status?: number };

async function responseOf(failure: unknown): Promise<ProviderResponse> {
  if (failure instanceof openid.ResponseBodyError)
    return { body: failure.cause, status: failure.status };
  if (failure instanceof openid.WWWAuthenticateChallengeError)
    return { body: await jsonOf(failure.response), status: failure.status };
  if (!(failure instanceof openid.ClientError)) return {};
  const { cause } = failure;
  if (cause instanceof Response) return { body: await jsonOf(cause), status: cause.status };
  return { body: bodyOfCause(cause) };
}

/** GitHub returns errors with status 200, which openid-client reports as a malformed response. */
function bodyOfCause(cause: unknown): object | undefined {
  const { cause: response } = (cause ?? {}) as { cause?: { body?: unknown } };
  return isObject(response?.body) ? response.body : undefined;
}

async function jsonOf(response: Response): Promise<object | undefined> {
  if (response.bodyUsed) return undefined;
  const body: unknown = await response.json().catch(() => undefined);
  return isObject(body) ? body : undefined;
}

type ErrorBody = {
  error?: unknown;
  error_description?: unknown;
  suberror?: unknown;
  error_subtype?: unknown;
};

function codeAndDescription(
  body: ErrorBody | undefined,
  secret: string | undefined,
): Omit<ProviderError, 'kind'> {
  const { error, error_description: description, suberror, error_subtype } = body ?? {};
  const shown = (text: unknown, max: number) =>
    typeof text === 'string' && text.trim() !== ''
      ? printable(secret ? text.replaceAll(secret, '…') : text, max)
      : undefined;
  const code = shown(error, MAX_CODE_LENGTH);
  const subcode = shown(suberror ?? error_subtype, MAX_CODE_LENGTH);
  const text = shown(description, MAX_DESCRIPTION_LENGTH);
  return {
    ...(code === undefined ? {} : { code }),
    ...(subcode === undefined ? {} : { subcode }),
    ...(text === undefined ? {} : { description: text }),
  };
}

/** Returns why discovery will fail again, or undefined if a retry may succeed. */
export function permanentDiscoveryFailure(failure: unknown): string | undefined {
  if (!(failure instanceof openid.ClientError)) return undefined;
  const { code, cause } = failure;
  if (code === 'OAUTH_JSON_ATTRIBUTE_COMPARISON_FAILED') return 'names another issuer';
  if (!(cause instanceof Response)) return undefined;
  const { status } = cause;
  const isPermanent = status >= 300 && status < 500 && status !== 408 && status !== 429;
  return isPermanent ? `was not found (HTTP ${status})` : undefined;
}

export function toHttpError(...args: Parameters<typeof withoutCode>): HttpError {
  const [, { code, status }] = args;
  const error = withoutCode(...args);
  error.remoteCode ??= code ?? (status === undefined ? 'invalid_response' : `HTTP ${status}`);
  return error;
}

function withoutCode(
  settings: IdentityProviderSettings,
  error: ProviderError,
  {
    cause,
    isFromBrowser,
    server,
  }: { cause: unknown; isFromBrowser: boolean; server: openid.ServerMetadata },
): HttpError {
  const reason = `the identity provider ${settings.issuer} answered ${describeProviderError(error)}`;
  if (error.kind === 'stopped') {
    const code = /^[a-z_]+$/.test(error.code ?? '') ? ` (${error.code})` : '';
    const message = `the sign-in was not completed at the identity provider${code}`;
    return new HttpError(400, 'access_denied', message, { cause, about: STOPPED });
  }
  if (error.kind === 'untrusted') return invalidResponse(cause);
  if (error.kind === 'unavailable')
    // The cause of an authorization error response contains its query, with the state. It is not logged.
    return error.code === undefined && error.status === undefined
      ? providerUnavailable(settings, cause)
      : unavailable(new Error(reason), UNAVAILABLE);
  return notSetUp(`${reason}: ${adviceFor(settings, error, server)}`, { isFromBrowser });
}

/** A temporary fault. The log has the cause, and explains a failure of TLS. */
export function providerUnavailable(
  { issuer }: Pick<IdentityProviderSettings, 'issuer'>,
  cause: unknown,
): HttpError {
  const fault = tlsFault(cause);
  const message = fault
    ? `the identity provider ${issuer} ${fault.what}: ${fault.remedy}`
    : `the identity provider ${issuer} gave no valid response: ${rootMessage(cause)}`;
  const error = unavailable(new Error(message, { cause }), UNAVAILABLE);
  error.remoteCode = rootMessage(cause);
  return error;
}

/**
 * `reason` is for the log. A browser can forge an authorization error response, so `isFromBrowser` makes it a 400. Both are logged as
 * errors.
 */
export function notSetUp(
  reason: string,
  { isFromBrowser = false }: { isFromBrowser?: boolean } = {},
): HttpError {
  const message = 'sign-in is not set up correctly: contact the operator of this service';
  return new HttpError(isFromBrowser ? 400 : 500, 'sign_in_not_set_up', message, {
    cause: new Error(reason),
    logLevel: 'error',
  });
}

/** Tells the operator which setting to check. `server` is the provider's metadata. */
export function adviceFor(
  settings: IdentityProviderSettings,
  { code, description, status }: Omit<ProviderError, 'kind'>,
  server: openid.ServerMetadata = { issuer: settings.issuer },
): string {
  const { id, listed, kind, clientSecret } = settings;
  const setting = listed ? `identityProviders (${id})` : 'identityProvider';
  if (code === 'invalid_scope') return `check scopes of ${setting}`;
  if (/redirect/.test(code ?? ''))
    return `check the redirect addresses that are registered there, and clientId of ${setting}`;
  if (isWrongEndpoint(status) && !CLIENT_REJECTED_AT_TOKEN.includes(code ?? ''))
    return `check issuer of ${setting}: the token endpoint that it leads to, ${server.token_endpoint}, does not work`;
  const isOfSecret = status === 401 || /client|credential/.test(code ?? '');
  const variable = listed ? '' : 'GATEHOUSE_IDENTITY_PROVIDER_SECRET, or ';
  if (clientSecret === undefined && kind === 'openid')
    return `no client secret is set; set the one that is registered there (${variable}clientSecretFile of ${setting})`;
  if (isOfSecret) {
    const checks = `check clientId and the client secret (${variable}clientSecretFile of ${setting}); the secret may have expired, or the client may be disabled`;
    return kind === 'github' ? checks : `${checks}. ${otherMethod(settings, server)}`;
  }
  const isOfPkce = /code_challenge|code_verifier|pkce/i.test(description ?? '');
  if (isOfPkce) return `enable PKCE with S256 for this client there, or set pkce of ${setting}`;
  return `compare the registration of this client there with ${setting}: code flow, web application`;
}

/** A provider that accepts one method for each client reports the other as a wrong secret. */
function otherMethod(settings: IdentityProviderSettings, server: openid.ServerMetadata): string {
  const used = clientAuthenticationMethod(settings, server);
  const other = used === 'client_secret_basic' ? 'client_secret_post' : 'client_secret_basic';
  return `The secret was sent with ${used}: if the client is registered there for ${other}, set clientAuthentication to it`;
}

/** What operators can do about a response that fails validation, by the library's message. */
const ADVICE: readonly [message: RegExp, advice: string][] = [
  [
    /"alg"|JWS algorithm|JWS "alg"/,
    'let the provider sign ID tokens of this client with one of the public-key algorithms in its discovery document, such as RS256 (with authentik, choose a signing key; with Auth0 and Keycloak, set the algorithm of the client)',
  ],
  [
    /signature|verification key/,
    'compare the keys at jwks_uri of its discovery document with those that sign; several instances of the provider may not share their keys',
  ],
  [
    /"(exp|nbf|iat)"|too much time/,
    'compare the clocks of this machine and of the provider (NTP): they differ, or the response was too slow',
  ],
  [/"iss"/, 'set issuer exactly as in the discovery document, with or without the final slash'],
  [
    /"(aud|azp)"/,
    'compare clientId with the id of this client at the provider, and remove other audiences from its ID tokens, or let the provider name this client in azp',
  ],
  [
    /"nonce"/,
    'let the provider copy nonce of the request into the ID token (Core section 3.1.2.1)',
  ],
  [/"state"/, 'let the provider copy state of the request into its response'],
  [
    /claim|must be|missing|parse|content-type|unsupported/,
    'correct the named member of the response at the provider, which breaks the specification',
  ],
];

function invalidResponse(cause: unknown): HttpError {
  const reason = rootMessage(cause);
  const advice = ADVICE.find(([message]) => message.test(reason))?.[1];
  return notTrusted(
    `the response of the identity provider is not valid: ${reason}${advice === undefined ? '' : `; ${advice}`}`,
    cause,
  );
}

/** Nobody may be able to sign in, so it is a warning. The message is for the log and has the reason; the page has other words. */
export function notTrusted(message: string, cause?: unknown): HttpError {
  return new HttpError(400, 'access_denied', message, {
    cause,
    about: 'sign_in_not_trusted',
    logLevel: 'warn',
  });
}
