import { verify } from 'node:crypto';
import { expect } from 'chai';
import { exportJWK, generateKeyPair } from 'jose';
import { LocalSigningKey } from '../../src/oauth/engine/signing-key.ts';

describe('The key that signs access tokens', () => {
  it('makes signatures of R and S with 32 bytes each (RFC 7518 section 3.4), also of numbers that are shorter', async () => {
    const { privateKey } = await generateKeyPair('ES256', { extractable: true });
    const key = new LocalSigningKey({ ...(await exportJWK(privateKey)), kid: 'one', alg: 'ES256' });
    const shorter = { r: 0, s: 0 };
    // One of 256 numbers begins with a zero byte.
    for (let n = 0; n < 20_000 && (shorter.r === 0 || shorter.s === 0 || n < 200); n += 1) {
      const data = Buffer.from(`signed ${n}`);
      const signature = key.sign(data);
      expect(signature).to.have.lengthOf(64);
      const options = { key: key.keyObject(), dsaEncoding: 'ieee-p1363' as const };
      expect(verify('sha256', data, options, signature)).to.equal(true);
      if (signature[0] === 0) shorter.r += 1;
      if (signature[32] === 0) shorter.s += 1;
    }
    expect(shorter.r).to.be.above(0);
    expect(shorter.s).to.be.above(0);
  });
});
