// Errors of an identity provider: read from what openid-client throws, and classified (RFC 6749 sections 4.1.2.1 and 5.2).
import * as openid from 'openid-client';
import type { IdentityProvider as IdentityProviderSettings } from '../../settings/identity-provider.ts';

/**
 * `stopped`: the person can start again. `client`: the provider refuses Gatehouse itself, so nobody can sign in until the settings or the
 * registration are corrected. `unavailable`: a temporary fault. `untrusted`: a response that fails validation.
 */
export type ProviderErrorKind = 'stopped' | 'client' | 'unavailable' | 'untrusted';

/** `code` and `description` are the provider's own, without control characters and bounded. */
export type ProviderError = {
  kind: ProviderErrorKind;
  code?: string;
  description?: string;
  /** Of the HTTP response. */
  status?: number;
};

const MAX_CODE = 64;
const MAX_DESCRIPTION = 200;

const OF_CODE = ['invalid_grant', 'bad_verification_code'];
const OF_PERSON = [
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
/** Those that an authorization endpoint answers with when it does not like the client or its request. */
const OF_CLIENT = [
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

/** Of an authorization response or a token request. */
export async function readProviderError(
  failure: unknown,
  { clientSecret }: Pick<IdentityProviderSettings, 'clientSecret'>,
): Promise<ProviderError> {
  if (failure instanceof openid.AuthorizationResponseError) {
    const said = saidIn(failure, clientSecret);
    return { kind: kindAtAuthorization(failure.error), ...said };
  }
  const { body, status } = await responseOf(failure);
  const said = saidIn(body, clientSecret);
  const kind = kindAtToken(failure, said.code, status);
  return { kind, ...said, ...(status === undefined ? {} : { status }) };
}

/** For the log and for operators: such as `invalid_client (Unknown secret)` or `HTTP 404`. */
export function textOf({ code, description, status }: ProviderError): string {
  if (code === undefined) return status === undefined ? 'no answer' : `HTTP ${status}`;
  return description === undefined ? code : `${code} (${description})`;
}

/** The client was accepted: only the code is too old, used already or made up. */
export function isUnknownCode({ code }: ProviderError): boolean {
  return code !== undefined && OF_CODE.includes(code);
}

function kindAtAuthorization(code: string): ProviderErrorKind {
  if (TEMPORARY.includes(code)) return 'unavailable';
  return OF_CLIENT.includes(code) ? 'client' : 'stopped';
}

/** RFC 6749 section 5.2: 401 is failed client authentication, which some providers give an error code of their own. */
function kindAtToken(
  failure: unknown,
  code: string | undefined,
  status: number | undefined,
): ProviderErrorKind {
  if (code !== undefined && OF_CODE.includes(code)) return 'stopped';
  if (isTemporary(failure, code, status)) return 'unavailable';
  if (status === 401) return 'client';
  if (code !== undefined) return OF_PERSON.includes(code) ? 'stopped' : 'client';
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
  // Other errors than these are of the network.
  return !(failure instanceof openid.ClientError) || failure.code === 'OAUTH_TIMEOUT';
}

type ProviderResponse = { body?: object | undefined; status?: number };

async function responseOf(failure: unknown): Promise<ProviderResponse> {
  if (failure instanceof openid.ResponseBodyError) return { body: failure, status: failure.status };
  if (failure instanceof openid.WWWAuthenticateChallengeError)
    return { body: await jsonOf(failure.response), status: failure.status };
  if (!(failure instanceof openid.ClientError)) return {};
  const { cause } = failure;
  if (cause instanceof Response) return { body: await jsonOf(cause), status: cause.status };
  return { body: bodyBehind(cause) };
}

/** GitHub answers 200 when it refuses, which is a malformed answer to the library. */
function bodyBehind(cause: unknown): object | undefined {
  const { cause: answer } = (cause ?? {}) as { cause?: { body?: unknown } };
  return isObject(answer?.body) ? answer.body : undefined;
}

async function jsonOf(response: Response): Promise<object | undefined> {
  if (response.bodyUsed) return undefined;
  const body: unknown = await response.json().catch(() => undefined);
  return isObject(body) ? body : undefined;
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}

function saidIn(
  body: { error?: unknown; error_description?: unknown } | undefined,
  secret: string | undefined,
): Pick<ProviderError, 'code' | 'description'> {
  const { error, error_description: description } = body ?? {};
  const printable = (text: unknown, max: number) =>
    typeof text === 'string' && text.trim() !== ''
      ? printableText(secret ? text.replaceAll(secret, '…') : text, max)
      : undefined;
  const code = printable(error, MAX_CODE);
  const said = printable(description, MAX_DESCRIPTION);
  return {
    ...(code === undefined ? {} : { code }),
    ...(said === undefined ? {} : { description: said }),
  };
}

/** On one line, without characters that change how a terminal shows it. */
export function printableText(text: string, max: number): string {
  const line = text.replaceAll(/[\p{C}\p{Zl}\p{Zp}\s]+/gu, ' ').trim();
  return line.length > max ? `${line.slice(0, max)}…` : line;
}

/** Why the discovery document will not be there a minute later either; undefined when it may be. */
export function readDiscoveryFailure(failure: unknown): string | undefined {
  if (!(failure instanceof openid.ClientError)) return undefined;
  const { code, cause } = failure;
  if (code === 'OAUTH_JSON_ATTRIBUTE_COMPARISON_FAILED') return 'names another issuer';
  if (!(cause instanceof Response)) return undefined;
  const { status } = cause;
  const isLasting = status >= 300 && status < 500 && status !== 408 && status !== 429;
  return isLasting ? `is not there (HTTP ${status})` : undefined;
}
