// Writes config/recipes/caller-vectors.json, with new keys: node test/support/write-caller-vectors.ts
import { createHmac } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { exportJWK, generateKeyPair, type JWTPayload, SignJWT, UnsecuredJWT } from 'jose';

export const VECTORS = join(import.meta.dirname, '../../config/recipes/caller-vectors.json');

const ISSUER = 'https://auth.example.com';
const AUDIENCE = 'https://tools.example.com/mcp';
const NOW = 1_800_000_000;
const TYPE = 'gatehouse-caller+jwt';

const MINIMAL = {
  iss: ISSUER,
  aud: AUDIENCE,
  iat: NOW - 20,
  exp: NOW + 40,
  sub: 'Q2VzdCBuJ2VzdCBwYXMgdW4gaWQ',
  client_id: 'https://app.example.com/client.json',
  connector: 'k3J9sLq0Xb2mN7vT4yWcPz',
  level: 'operations',
};
const PERSON = {
  name: 'Zoë Łukasz 😀',
  email: 'zoe@example.com',
  email_verified: true,
  groups: ['staff', 'CN=Analysts,OU=Groups', 'line\r\nbreak'],
  groups_truncated: true,
  idp: 'https://login.example.com',
  idp_sub: '248289761001',
  provider: 'default',
};
const { connector: _, ...WITHOUT_CONNECTOR } = MINIMAL;
const minted = { sub: 'minted:7hG2', client_id: 'minted:7hG2' };

const encodings = [
  { text: 'Ada Lovelace', encoded: 'Ada Lovelace' },
  { text: 'Zoë', encoded: 'Zo%C3%AB' },
  { text: '100% 😀', encoded: '100%25 %F0%9F%98%80' },
  { text: 'a\r\nX-Admin: 1\u0000\u007f', encoded: 'a%0D%0AX-Admin: 1%00%7F' },
  { text: ' a ', encoded: '%20a%20' },
  { groups: ['staff', 'a,b', 'ü'], encoded: 'staff,a%2Cb,%C3%BC' },
];

async function vectors() {
  const [ours, stranger] = await Promise.all([generateKeyPair('ES256'), generateKeyPair('ES256')]);
  const jwk = { ...(await exportJWK(ours.publicKey)), kid: 'one', alg: 'ES256', use: 'sig' };
  const sign = (claims: JWTPayload, { kid = 'one', typ = TYPE, key = ours.privateKey } = {}) =>
    new SignJWT(claims).setProtectedHeader({ alg: 'ES256', typ, kid }).sign(key);
  const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const hmac = [encode({ alg: 'HS256', typ: TYPE, kid: 'one' }), encode(MINIMAL)].join('.');
  const person = await sign({ ...MINIMAL, ...PERSON });
  const [head, , signature] = person.split('.');
  const valid = async (name: string, claims: JWTPayload) => ({
    name,
    header: await sign(claims),
    claims,
  });
  const invalid = (name: string, header: string) => ({ name, header });
  const without = (claim: keyof typeof MINIMAL) =>
    sign(Object.fromEntries(Object.entries(MINIMAL).filter(([name]) => name !== claim)));
  return {
    about:
      'Values of the header Gatehouse-Caller for a verifier with these keys, issuer and audience, at the time now (seconds since 1970). Those with claims are valid. The last list has values of plain headers.',
    issuer: ISSUER,
    audience: AUDIENCE,
    now: NOW,
    keys: { keys: [jwk] },
    headers: [
      await valid('a person of whom only an id is known', MINIMAL),
      await valid('a person with all claims', { ...MINIMAL, ...PERSON }),
      await valid('a machine', { ...MINIMAL, sub: 'machine:ci', client_id: 'ci' }),
      await valid('a minted token', { ...WITHOUT_CONNECTOR, ...minted }),
      await valid('Gatehouse itself', {
        ...WITHOUT_CONNECTOR,
        sub: 'gatehouse',
        client_id: 'gatehouse',
      }),
      invalid('empty', ''),
      invalid('no JWT', 'ada@example.com'),
      invalid('other claims under the same signature', `${head}.${encode(MINIMAL)}.${signature}`),
      invalid('no signature', new UnsecuredJWT(MINIMAL).encode()),
      invalid('cut off', person.slice(0, -20)),
      invalid('an unknown key', await sign(MINIMAL, { kid: 'two', key: stranger.privateKey })),
      invalid('a key under a stolen id', await sign(MINIMAL, { key: stranger.privateKey })),
      invalid(
        'signed with the public key as a secret',
        `${hmac}.${createHmac('sha256', JSON.stringify(jwk)).update(hmac).digest('base64url')}`,
      ),
      invalid('an access token', await sign(MINIMAL, { typ: 'at+jwt' })),
      invalid('no type', await sign(MINIMAL, { typ: 'JWT' })),
      invalid('another issuer', await sign({ ...MINIMAL, iss: 'https://evil.example.com' })),
      invalid('another server', await sign({ ...MINIMAL, aud: 'https://other.example.com/mcp' })),
      invalid(
        'an address that only resembles ours',
        await sign({ ...MINIMAL, aud: `${AUDIENCE}/` }),
      ),
      invalid('two servers', await sign({ ...MINIMAL, aud: [AUDIENCE, 'https://b.example'] })),
      invalid('expired', await sign({ ...MINIMAL, iat: NOW - 120, exp: NOW - 60 })),
      invalid('no expiry', await without('exp')),
      invalid('no subject', await without('sub')),
      invalid('no level', await without('level')),
    ],
    encodings,
  };
}

if (import.meta.main) writeFileSync(VECTORS, `${JSON.stringify(await vectors(), null, 2)}\n`);
