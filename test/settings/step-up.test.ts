import { expect } from 'chai';
import {
  DEVELOPMENT,
  issuesIn,
  load,
  loadInProduction,
  PRODUCTION,
  wrongSettings,
} from './settings-file.ts';

const RIGHT = { levels: ['full'], maxAge: '15m', acrValues: ['gold'] };
const withStepUp = (stepUp: object, provider: object = {}) => ({
  ...PRODUCTION,
  identityProvider: { ...PRODUCTION.identityProvider, ...provider, stepUp },
});

describe('the step-up sign-in of an identity provider', () => {
  it('every OpenID provider can have it, also the embedded one', () => {
    const [single] = loadInProduction(withStepUp(RIGHT)).identityProviders;
    const developmentIdp = { ...DEVELOPMENT.developmentIdp, stepUp: RIGHT };
    const [embedded] = load({ ...DEVELOPMENT, developmentIdp }).identityProviders;
    for (const provider of [single, embedded])
      expect(provider?.stepUp).to.deep.equal({ ...RIGHT, maxAge: 900 });
  });

  const place = 'identityProvider.stepUp';
  const wrong: [what: string, content: object, setting: string][] = [
    ['GitHub', withStepUp(RIGHT, { kind: 'github', issuer: undefined, clientSecret: 's' }), place],
    ['an unknown level', withStepUp({ ...RIGHT, levels: ['full', 'root'] }), `${place}.levels[1]`],
    ['no level', withStepUp({ ...RIGHT, levels: [] }), `${place}.levels`],
    ['neither maxAge nor acrValues', withStepUp({ levels: ['full'] }), `${place}.maxAge`],
    ['a maxAge below a minute', withStepUp({ ...RIGHT, maxAge: '59s' }), `${place}.maxAge`],
    [
      'two acr values in one',
      withStepUp({ ...RIGHT, acrValues: ['a b'] }),
      `${place}.acrValues[0]`,
    ],
  ];
  for (const [what, content, setting] of wrong)
    it(`${what} is a settings error`, () => {
      expect(wrongSettings(content)).to.include(setting);
    });

  it('the error for an unknown level lists the levels, and the error for GitHub says why', () => {
    const text = JSON.stringify([
      issuesIn(withStepUp({ ...RIGHT, levels: ['root'] })),
      issuesIn(withStepUp(RIGHT, { kind: 'github' })),
    ]);
    expect(text).to.include('one of analytics, operations, admin, full');
    expect(text).to.include('GitHub does not say when or how a person signed in');
  });
});
