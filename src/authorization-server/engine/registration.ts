// Dynamic client registration (RFC 7591): open, and tolerant: what is not kept is dropped, and the answer says what was kept.
import { randomBytes } from 'node:crypto';
import type { KoaContextWithOIDC } from 'oidc-provider';
import { acceptedMetadata } from './client-metadata.ts';
import type { RedirectPolicy } from './redirect-uris.ts';

const ANSWERED = [
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

/**
 * The engine's `features.registration`. Its id factory is called before the engine looks at the body, so this is where the body becomes
 * what we accept. Registrations cannot be read or changed later (RFC 7592): a client that wants another one registers again.
 */
export function registration(policy: RedirectPolicy) {
  return {
    enabled: true,
    initialAccessToken: false,
    issueRegistrationAccessToken: false,
    idFactory(ctx: KoaContextWithOIDC): string {
      const body = ctx.oidc.body as Record<string, unknown>;
      const accepted = acceptedMetadata(body, policy);
      for (const name of Object.keys(body)) delete body[name];
      Object.assign(body, accepted);
      return randomBytes(16).toString('base64url');
    },
    secretFactory: () => randomBytes(32).toString('base64url'),
  };
}

/** RFC 7591 section 3.2.1: all that is stored, and nothing else: no null, no empty string, no wish that was not made. */
export function registrationAnswer(metadata: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(
    ANSWERED.map((name) => [name, metadata[name]]).filter(
      ([, value]) => value !== undefined && value !== null && value !== '' && value !== false,
    ),
  );
}
