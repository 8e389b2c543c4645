// How a call to an upstream gets a credential of the person who makes it (`upstreams[].credential`).
import * as z from 'zod';
import { headerValue } from './value-types.ts';

const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$/;
/** RFC 6749 section 3.3. */
const SCOPE = /^[\x21\x23-\x5b\x5d-\x7e]{1,256}$/;

const headerName = z.string().regex(TOKEN, 'a valid header name');

const header = z
  .union(
    [
      headerName,
      z.strictObject({
        name: headerName,
        prefix: z.string().regex(/^[\x20-\x7e]{0,64}$/, 'up to 64 visible ASCII characters'),
      }),
    ],
    'a header name, or {name, prefix}',
  )
  .optional()
  .meta({
    description:
      'Header that carries the credential: a name, or `{name, prefix}` with what stands before it.',
    defaultText: '`Authorization`, with `Bearer `',
    valueType: 'header',
  });

const endpoint = z
  .string()
  .refine((text) => {
    const url = URL.parse(text);
    return url !== null && /^https?:$/.test(url.protocol) && url.username === '' && !url.hash;
  }, 'an http or https address without a user name or a fragment')
  .meta({ valueType: 'URL' });

const scope = z.string().regex(SCOPE, 'a scope, without spaces');

const clientMembers = {
  clientId: z.string().min(1).max(2048).optional().describe('Id of our client at the service.'),
  clientSecret: headerValue
    .optional()
    .describe('Its secret: a text, `{env: <variable>}` or `{file: <path>}`.'),
  clientSecretFile: z.string().min(1).optional().describe('File with the secret.'),
  clientSecretExpires: z.iso.date('a day such as 2027-06-30').optional().meta({
    description:
      'Day on which the secret ends at the service. From 14 days before, doctor, the console and `/metrics` say so.',
    valueType: 'day',
    defaultText: 'none',
  }),
};

/** Parameters that the flow itself sets (RFC 6749, RFC 7636, RFC 8707). */
const OWN_PARAMETERS =
  'client_id client_secret code_challenge code_challenge_method redirect_uri request request_uri resource response_mode response_type scope state'.split(
    ' ',
  );

const oauthSchema = z.strictObject({
  kind: z
    .literal('oauth')
    .describe("The person's account at the authorization server of the MCP server."),
  issuer: endpoint.optional().meta({
    description: 'Issuer of the authorization server.',
    defaultText: 'what the MCP server names (RFC 9728)',
  }),
  authorizationEndpoint: endpoint
    .optional()
    .describe('For a service without metadata, together with `tokenEndpoint`.'),
  tokenEndpoint: endpoint.optional().describe('For a service without metadata.'),
  revocationEndpoint: endpoint
    .optional()
    .describe('For a service without metadata: where tokens are revoked (RFC 7009).'),
  ...clientMembers,
  tokenAuth: z.enum(['basic', 'post', 'none']).optional().meta({
    description: 'How the client authenticates at the token endpoint.',
    defaultText: 'what the metadata says; `basic` where it says nothing',
  }),
  registration: z.enum(['named', 'document', 'dynamic']).optional().meta({
    description:
      'How Gatehouse is known to the service: `clientId` of the settings, its own metadata document, or dynamic registration.',
    defaultText: 'the first of these that is possible',
  }),
  scopes: z
    .union([z.array(scope), z.record(z.string(), z.array(scope))], 'a list, or lists by level')
    .default([])
    .meta({
      description:
        'Scopes that are asked for: a list, or an object from levels to lists. `offline_access` is added where the service lists it.',
      valueType: 'list or lists by level',
    }),
  resource: z
    .union([z.boolean(), z.string().min(1).max(2048)], 'true, false or a text')
    .optional()
    .meta({
      description:
        'The `resource` of authorization, code and refresh (RFC 8707): `true` for the address of the MCP server, `false` for none, or the value.',
      defaultText: "what the MCP server's metadata says; without metadata, its address",
      valueType: 'true, false or text',
    }),
  authorizeParams: z
    .record(z.string().min(1).max(64), z.string().max(1024))
    .refine(
      (parameters) => !Object.keys(parameters).some((name) => OWN_PARAMETERS.includes(name)),
      `parameters other than ${OWN_PARAMETERS.join(', ')}`,
    )
    .default({})
    .meta({
      description:
        "Further parameters of the authorization request, such as `prompt: consent`. Google's servers get `access_type=offline` without it.",
      valueType: 'names with values',
    }),
  header,
});

const keySchema = z.strictObject({
  kind: z.literal('key').describe('A key that the person enters on a page of Gatehouse.'),
  label: z.string().min(1).max(80).optional().meta({
    description: 'What the key is called on the page.',
    defaultText: '`API key`',
  }),
  help: z.string().min(1).max(500).optional().describe('Where people find the key.'),
  header,
});

/** Parameters of a token exchange that carry what the person and Gatehouse are, or that have members of their own. */
const OWN_EXCHANGE_PARAMETERS =
  'assertion audience client_assertion client_assertion_type client_id client_secret resource scope subject_token'.split(
    ' ',
  );

const exchangeSchema = z.strictObject({
  kind: z
    .literal('exchange')
    .describe(
      "A token that the sign-in provider issues in exchange for the person's token there. The person is asked nothing.",
    ),
  provider: z.string().min(1).optional().meta({
    description: 'Id of the identity provider.',
    defaultText: 'the only one',
  }),
  style: z
    .enum(['exchange', 'on-behalf-of'])
    .default('exchange')
    .describe('`exchange` for RFC 8693; `on-behalf-of` for Microsoft Entra ID.'),
  audience: z
    .string()
    .min(1)
    .max(2048)
    .optional()
    .describe('For whom the token is: a client or a server, as the provider knows it.'),
  scope: z
    .string()
    .regex(
      /^[\x21\x23-\x5b\x5d-\x7e]+( [\x21\x23-\x5b\x5d-\x7e]+)*$/,
      'scopes, separated by spaces',
    )
    .max(2048)
    .optional()
    .describe('Scopes of the token.'),
  resource: z
    .string()
    .min(1)
    .max(2048)
    .optional()
    .describe('The server, as an address (RFC 8707).'),
  ...clientMembers,
  clientId: clientMembers.clientId.meta({
    description: 'Client that exchanges, where it is another one than that of the sign-in.',
    defaultText: 'that of the sign-in, with its secret',
  }),
  params: z
    .record(z.string().min(1).max(64), z.string().max(1024))
    .refine(
      (parameters) =>
        !Object.keys(parameters).some((name) => OWN_EXCHANGE_PARAMETERS.includes(name)),
      `parameters other than ${OWN_EXCHANGE_PARAMETERS.join(', ')}`,
    )
    .default({})
    .meta({
      description:
        'Further parameters of the request, such as `requested_token_type`. They replace those that the style sets.',
      valueType: 'names with values',
    }),
  header,
});

export const credentialSchema = z.discriminatedUnion('kind', [
  oauthSchema,
  exchangeSchema,
  keySchema,
]);

export type CredentialInFile = z.output<typeof credentialSchema>;
