import { createSecretKey } from 'node:crypto';
import { expect } from 'chai';
import { HttpError } from '../../src/http/errors.ts';
import { createFormToken, requireFormToken } from '../../src/http/form-tokens.ts';

describe('form tokens', () => {
  const [current, previous, foreign] = ['current', 'previous', 'foreign'].map((text) =>
    createSecretKey(Buffer.from(text)),
  ) as [ReturnType<typeof createSecretKey>, ...ReturnType<typeof createSecretKey>[]];

  it('a form token is accepted for its context, also when signed with an earlier key', () => {
    for (const key of [current, previous!]) {
      const token = createFormToken([key], 'page\nsession');
      expect(requireFormToken([current, previous!], 'page\nsession', token)).to.equal(key);
    }
  });

  it('a form token of another context or key, and a missing one, are refused with 403', () => {
    const tokens = [
      createFormToken([current], 'page\nother session'),
      createFormToken([foreign!], 'page\nsession'),
      createFormToken([current], 'page\nsession').slice(1),
      '',
      undefined,
    ];
    for (const token of tokens)
      expect(() => requireFormToken([current, previous!], 'page\nsession', token))
        .to.throw(HttpError)
        .with.property('status', 403);
  });
});
