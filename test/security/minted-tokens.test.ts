import { expect } from 'chai';
import { decodeJwt } from 'jose';
import { mint } from '../links/minted-tokens/minting.ts';
import { useSystem } from '../support/system.ts';

describe('A minted token', () => {
  const system = useSystem();

  it('STK-01 a minted token has an ES256 signature and a random id', async () => {
    const minted = await Promise.all(Array.from({ length: 20 }, () => mint(system())));
    for (const { id, token } of minted) {
      expect(token.split('.')[2]).to.have.lengthOf(86);
      expect(decodeJwt(token).jti).to.equal(id);
    }
    const random = minted.map(({ id }) => id.slice(12));
    expect(new Set(random).size).to.equal(20);
    for (const tail of random) expect(tail).to.match(/^[0-9a-f]{20}$/);
  });
});
