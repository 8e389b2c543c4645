import { expect } from 'chai';
import { createLocalJWKSet, exportJWK, generateKeyPair, type JWTPayload, SignJWT } from 'jose';
import { HttpError } from '../../src/http/errors.ts';
import { tokenVerifier } from '../../src/gateway/authenticate.ts';

const ISSUER = 'https://auth.example';
const HERE = 'https://mcp.example/connect/a/mcp';
const NOW = 1_900_000_000;

async function keyPair(kid: string) {
  const { privateKey, publicKey } = await generateKeyPair('ES256');
  const sign = (claims: JWTPayload = {}, header = {}) =>
    new SignJWT({ iss: ISSUER, aud: HERE, sub: 'a', jti: 'j', iat: NOW, exp: NOW + 60, ...claims })
      .setProtectedHeader({ alg: 'ES256', typ: 'at+jwt', kid, ...header })
      .sign(privateKey);
  const jwk = { ...(await exportJWK(publicKey)), kid, alg: 'ES256', use: 'sig' };
  return { sign, keys: createLocalJWKSet({ keys: [jwk] }) };
}

const KINDS = ['keys that are searched', 'keys that have a version'] as const;

for (const kind of KINDS)
  describe(`A cached access token, with ${kind}`, () => {
    let own: Awaited<ReturnType<typeof keyPair>>;
    let now: number;
    let keys: Parameters<typeof tokenVerifier>[0]['verificationKeys'];
    let verify: ReturnType<typeof tokenVerifier>;

    beforeEach(async () => {
      own = await keyPair('one');
      now = NOW;
      keys = own.keys;
      const search: typeof keys = (header, token) => keys(header, token);
      const verificationKeys =
        kind === KINDS[0] ? search : Object.assign(search, { version: () => keys });
      verify = tokenVerifier({ issuer: ISSUER, verificationKeys, now: () => now });
    });

    it('a cached token returns the same claims again', async () => {
      const token = await own.sign();
      const first = await verify(token, HERE);
      expect(first).to.include({ sub: 'a', jti: 'j', aud: HERE });
      expect(await verify(token, HERE)).to.equal(first);
    });

    it('a cached token expires to the second', async () => {
      const token = await own.sign();
      now = NOW + 59.9;
      expect(await verify(token, HERE)).to.be.an('object');
      now = NOW + 60;
      expect(await verify(token, HERE)).to.equal('expired');
      expect(await verify(token, HERE)).to.equal('expired');
    });

    it('a cached token is refused as soon as its key is no longer published', async () => {
      const token = await own.sign();
      expect(await verify(token, HERE)).to.be.an('object');
      keys = (await keyPair('two')).keys;
      expect(await verify(token, HERE)).to.equal('unknown');
    });

    it('a cached token is refused as soon as its key id names another key', async () => {
      const token = await own.sign();
      expect(await verify(token, HERE)).to.be.an('object');
      keys = (await keyPair('one')).keys;
      expect(await verify(token, HERE)).to.equal('unknown');
    });

    it('a cached token is valid after the keys were fetched again', async () => {
      const token = await own.sign();
      expect(await verify(token, HERE)).to.be.an('object');
      keys = createLocalJWKSet(own.keys.jwks());
      expect(await verify(token, HERE)).to.be.an('object');
    });

    it('RSV-01 a cached token is valid for its own audience only, in any order of requests', async () => {
      const token = await own.sign();
      for (const [audience, expected] of [
        ['https://mcp.example/connect/b/mcp', 'wrong-audience'],
        [HERE, 'object'],
        [`${HERE}/`, 'wrong-audience'],
        ['https://mcp.example/mcp', 'wrong-audience'],
      ] as const) {
        const verified = await verify(token, audience);
        expect(typeof verified === 'string' ? verified : 'object', audience).to.equal(expected);
      }
    });

    it('a cached token does not validate another token with the same claims', async () => {
      const token = await own.sign();
      expect(await verify(token, HERE)).to.be.an('object');
      const forged = await (await keyPair('one')).sign();
      expect(await verify(forged, HERE)).to.equal('unknown');
      expect(await verify(`${token.slice(0, -4)}AAAA`, HERE)).to.equal('unknown');
    });

    it('a cached token returns 503 while the keys cannot be fetched, and is valid again afterwards', async () => {
      const token = await own.sign();
      expect(await verify(token, HERE)).to.be.an('object');
      const { keys: before } = own;
      keys = () => Promise.reject(new TypeError('fetch failed'));
      const error = await Promise.resolve(verify(token, HERE)).catch((thrown: unknown) => thrown);
      expect(error).to.be.instanceOf(HttpError).and.include({ status: 503 });
      keys = before;
      expect(await verify(token, HERE)).to.be.an('object');
    });
  });
