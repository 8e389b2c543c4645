// RFC 8725 section 3, RFC 7515 section 4.1.
import {
  createHmac,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  sign as signBytes,
} from 'node:crypto';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { assert, expect } from 'chai';
import type { JWK } from 'jose';
import type { Running } from '../../src/server.ts';
import { createConnector } from '../support/management-api.ts';
import { connect, type Connection } from '../support/connection.ts';
import { callTool, isAccepted } from '../support/mcp.ts';
import { startSystem, type System } from '../support/system.ts';
import { startBeside } from './processes.ts';
import { readJwks } from './published-keys.ts';

type Header = Record<string, unknown>;
type Signature = (input: Buffer) => Buffer;

/** A forged token: changes to the header `{alg: ES256, typ: at+jwt, kid}`, and how it is signed. */
type Forgery = { title: string; header: Header; signature: Signature };

const OWN = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const RSA = generateKeyPairSync('rsa', { modulusLength: 2048 });
const ED25519 = generateKeyPairSync('ed25519');

const nothing: Signature = () => Buffer.alloc(0);
const hmac =
  (secret: string | Buffer, hash = 'sha256'): Signature =>
  (input) =>
    createHmac(hash, secret).update(input).digest();
const ecdsa = (input: Buffer) =>
  signBytes('sha256', input, { key: OWN.privateKey, dsaEncoding: 'ieee-p1363' });
const by =
  (key: KeyObject, hash: string | null = 'sha256'): Signature =>
  (input) =>
    signBytes(hash, input, key);

function publicJwkOf({ publicKey }: { publicKey: KeyObject }, kid: string): JWK {
  return { ...(publicKey.export({ format: 'jwk' }) as JWK), kid, alg: 'ES256', use: 'sig' };
}

const without = (alg: string) => ({ title: `no signature, "alg": "${alg}"`, header: { alg } });

/** `published` is the real signing key. The attacker serves a key set at `elsewhere`. */
function forgeries(published: JWK & { kid: string }, elsewhere: string): Forgery[] {
  const key = createPublicKey({ format: 'jwk', key: { ...published } });
  const { kid } = published;
  const secrets = {
    'its JWK': JSON.stringify(published),
    'its coordinates': `${published.x}${published.y}`,
    'its PEM': key.export({ type: 'spki', format: 'pem' }),
    'its DER': key.export({ type: 'spki', format: 'der' }),
    'its id': kid,
  };
  const jwk = publicJwkOf(OWN, kid);
  return [
    ...['none', 'None', 'NONE', 'nOnE', ''].map((alg) => ({ ...without(alg), signature: nothing })),
    ...Object.entries(secrets).map(([what, secret]) => ({
      title: `an HMAC with ${what} as the secret`,
      header: { alg: 'HS256' },
      signature: hmac(secret),
    })),
    {
      title: 'HS512 with its PEM',
      header: { alg: 'HS512' },
      signature: hmac(secrets['its PEM'], 'sha512'),
    },
    { title: 'RS256', header: { alg: 'RS256' }, signature: by(RSA.privateKey) },
    { title: 'EdDSA', header: { alg: 'EdDSA' }, signature: by(ED25519.privateKey, null) },
    { title: 'ES384', header: { alg: 'ES384' }, signature: ecdsa },
    { title: 'another key under the same id', header: {}, signature: ecdsa },
    { title: 'another key without an id', header: { kid: undefined }, signature: ecdsa },
    { title: 'a signature of zeros', header: {}, signature: () => Buffer.alloc(64) },
    { title: 'no signature at all', header: {}, signature: nothing },
    { title: 'an embedded key', header: { jwk }, signature: ecdsa },
    { title: 'an embedded key, no id', header: { jwk, kid: undefined }, signature: ecdsa },
    { title: 'a key set elsewhere', header: { jku: elsewhere }, signature: ecdsa },
    {
      title: 'a key set elsewhere, its id',
      header: { jku: elsewhere, kid: 'theirs' },
      signature: ecdsa,
    },
    { title: 'a certificate elsewhere', header: { x5u: elsewhere }, signature: ecdsa },
    { title: 'an extension that must be known', header: { crit: ['exp'] }, signature: ecdsa },
    ...[
      '../../../../dev/null',
      '/dev/null',
      `${elsewhere}/jwks`,
      "' OR 1=1 --",
      '__proto__',
      'constructor',
      '\u0000',
      '',
      'x'.repeat(2000),
    ].flatMap((odd) => [
      { title: `the id ${JSON.stringify(odd)}`, header: { kid: odd }, signature: ecdsa },
      {
        title: `the id ${JSON.stringify(odd)} and an empty secret`,
        header: { kid: odd, alg: 'HS256' },
        signature: hmac(''),
      },
    ]),
    ...[7, null, {}, ['x'], true].map((odd) => ({
      title: `the id ${JSON.stringify(odd)}`,
      header: { kid: odd },
      signature: ecdsa,
    })),
  ];
}

for (const [title, roles, beside] of [
  ['in the process that signs', 'all', undefined],
  ['apart from it', 'authorization-server,management', 'resource-server'],
] as const) {
  describe(`Forged tokens at a resource server ${title}`, () => {
    let system: System;
    let other: Running | undefined;
    let forger: Server;
    let elsewhere: string;
    let visits = 0;
    let connection: Connection;
    let published: JWK & { kid: string };

    before(async () => {
      forger = createServer((_request, response) => {
        visits += 1;
        response.end(JSON.stringify({ keys: [publicJwkOf(OWN, 'theirs')] }));
      }).listen(0, '127.0.0.1');
      await once(forger, 'listening');
      elsewhere = `http://127.0.0.1:${(forger.address() as AddressInfo).port}`;
      const store = beside ? 'redis' : 'sqlite';
      system = await startSystem({ store, settings: { GATEHOUSE_ROLES: roles } });
      other = beside && (await startBeside(system, beside));
      connection = await connect(system, await createConnector(system));
      const [key] = await readJwks(system);
      assert(key?.kid);
      published = { ...key, kid: key.kid };
    });
    after(async () => {
      await other?.stop();
      await system.stop();
      await once(forger.close(), 'close');
    });

    function forge({ header, signature }: Forgery): string {
      const [, claims = ''] = connection.accessToken.split('.');
      const all = { alg: 'ES256', typ: 'at+jwt', kid: published.kid, ...header };
      const input = `${Buffer.from(JSON.stringify(all)).toString('base64url')}.${claims}`;
      return `${input}.${signature(Buffer.from(input)).toString('base64url')}`;
    }

    it('AUD-07 RSV-01 RSV-09 the resource server rejects every forged token and fetches keys from no other place', async () => {
      const { link, accessToken } = connection;
      expect(await isAccepted(link, accessToken)).to.equal(true);
      for (const forgery of forgeries(published, elsewhere)) {
        const { status, headers } = await callTool(link, forge(forgery), 'club_overview');
        expect(status, forgery.title).to.equal(401);
        expect(headers.get('www-authenticate'), forgery.title).to.include('error="invalid_token"');
      }
      expect(visits).to.equal(0);
      expect(await isAccepted(link, accessToken)).to.equal(true);
    });
  });
}
