// The settings of identity providers that may vouch for people without a browser (ID-JAG), and what has to fit around them.
import { z } from 'zod';
import { issuer } from './value-types.ts';

const claim = z.string().min(1).max(200);

/** RFC 7517 section 4. What holds `d` or `k` is secret and belongs to the issuer alone. */
const publicKey = z
  .record(z.string(), z.unknown())
  .refine(
    (jwk) => typeof jwk['kty'] === 'string' && !('d' in jwk) && !('k' in jwk),
    'a public key (JWK) with kty, and without d or k',
  );

/** A host, or a name like those of identity providers. */
const id = z
  .string()
  .regex(/^[a-z0-9][a-z0-9.:-]{0,252}$/, 'lower-case letters, digits, dots, colons or dashes');

export const trustedIssuer = z
  .strictObject({
    id: id.optional(),
    issuer,
    jwksUri: z.url({ protocol: /^https?$/, error: 'the address of its public keys' }).optional(),
    jwks: z.strictObject({ keys: z.array(publicKey).min(1) }).optional(),
    clients: z.array(z.string().min(1)).min(1),
    tenant: z.string().min(1).optional(),
    claims: z
      .strictObject({
        subject: claim.default('sub'),
        name: claim.default('name'),
        email: claim.default('email'),
        emailVerified: claim.default('email_verified'),
        groups: claim.default('groups'),
      })
      .prefault({}),
    emailIsVerified: z.boolean().default(false),
  })
  .refine(({ jwksUri, jwks }) => (jwksUri === undefined) !== (jwks === undefined), {
    path: ['jwksUri'],
    error: 'the address of its public keys, or jwks with the keys themselves; one of the two',
  })
  .transform((given) => ({ ...given, id: given.id ?? new URL(given.issuer).host }));

export type TrustedIssuer = z.output<typeof trustedIssuer>;
