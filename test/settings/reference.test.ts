import { readFileSync } from 'node:fs';
import { expect } from 'chai';
import { REFERENCE, SETTINGS, settingsReference } from './reference.ts';

describe('the settings reference', () => {
  it('config/settings.md is current (npm run settings:reference writes it)', () => {
    expect(readFileSync(REFERENCE, 'utf8')).to.equal(settingsReference());
  });

  it('every setting has a description that ends with a full stop', () => {
    const paths = SETTINGS.map(({ path }) => path);
    expect(paths).to.include.members([
      'authUrl',
      'identityProviders[].id',
      'limits.sharedNetworks',
    ]);
    const others = SETTINGS.filter(({ schema }) => !/^[A-Z`].*\.$/.test(schema.description ?? ''));
    expect(others.map(({ path }) => path)).to.deep.equal([]);
  });
});
