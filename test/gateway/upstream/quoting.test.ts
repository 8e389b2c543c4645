import { expect } from 'chai';
import { maskJson } from '../../../src/gateway/upstream/quoting.ts';

describe('What a server repeats of a credential', () => {
  const tool = (more: object) => ({ name: 'search', inputSchema: { type: 'object' }, ...more });

  it('CRD-26 is masked in names, texts and numbers, and everything else stays', () => {
    const token = '1234567890';
    const given = tool({
      title: `For ${token}`,
      _meta: { [token]: [Number(token), null, true, 7] },
    });
    const masked = '*'.repeat(token.length);
    expect(maskJson([[given]], token)).to.deep.equal([
      [tool({ title: `For ${masked}`, _meta: { [masked]: [masked, null, true, 7] } })],
    ]);
  });

  it('CRD-26 is masked if the credential is a part of JSON, and what the server says can still be read', () => {
    const token = '"inputSchema":';
    const given = tool({ title: `For ${token}` });
    expect(maskJson([[given]], token)).to.deep.equal([
      [tool({ title: `For ${'*'.repeat(token.length)}` })],
    ]);
  });
});
