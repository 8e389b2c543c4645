import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { parse } from 'yaml';
import { DEVELOPMENT, load, loadInProduction, issuesIn, PRODUCTION } from './settings-file.ts';

const EXAMPLE = join(import.meta.dirname, '../../config/production.example.yaml');
const TEN_MINUTES = 600;

describe('limits', () => {
  it('the default limits are a hundred times as high in development', () => {
    const [production, development] = [loadInProduction(PRODUCTION), load(DEVELOPMENT)];
    const names = [
      'registrations',
      'authorizations',
      'signIns',
      'wrongSecrets',
      'wrongTokens',
      'documents',
    ];
    for (const name of names as (keyof Omit<
      typeof production.limits,
      'calls' | 'sharedNetworks'
    >)[]) {
      for (const part of ['perAddress', 'inAll'] as const) {
        const { count, seconds } = production.limits[name][part];
        const expected = { count: count * 100, seconds };
        expect(development.limits[name][part], `${name}.${part}`).to.deep.equal(expected);
      }
    }
    expect(production.limits.registrations.perAddress).to.deep.equal({
      count: 30,
      seconds: TEN_MINUTES,
    });
  });

  it('limits on calls are rates over at most a day, and zero is an error', () => {
    const limitsWith = (perPerson: unknown) => () =>
      load({ ...DEVELOPMENT, limits: { calls: { perPerson } } }).limits.calls;
    expect(limitsWith('1000/1d')()).to.deep.equal({ perPerson: { count: 1000, seconds: 86_400 } });
    for (const wrong of ['0/1m', '60/0m', '60/2d', '60', 60, '-1/1m', '60/1w'])
      expect(limitsWith(wrong), String(wrong)).to.throw('limits.calls.perPerson');
    const levels = [{ id: 'all', calls: '0/1m' }];
    expect(() => load({ ...DEVELOPMENT, levels })).to.throw('levels[0].calls');
  });

  it('the limits in the production example equal the defaults', () => {
    const { limits } = parse(readFileSync(EXAMPLE, 'utf8'));
    expect(loadInProduction({ ...PRODUCTION, limits }).limits).to.deep.equal(
      loadInProduction(PRODUCTION).limits,
    );
    expect(Object.keys(limits)).to.have.members(Object.keys(loadInProduction(PRODUCTION).limits));
  });

  it('a configured limit replaces only its own default', () => {
    const limits = { registrations: { perAddress: '7/30s' }, sharedNetworks: ['2001:db8::/48'] };
    const loaded = load({ ...DEVELOPMENT, limits }).limits;
    expect(loaded.registrations.perAddress).to.deep.equal({ count: 7, seconds: 30 });
    expect(loaded.registrations.inAll.count).to.equal(50_000);
    expect(loaded.sharedNetworks).to.deep.equal(['2001:db8::/48']);
  });

  for (const wrong of ['30', '30/', '0/10m', '30/10', '30 / 10m', '30/2d', '-1/1m', 30, '1/1w']) {
    it(`the limit ${JSON.stringify(wrong)} is refused`, () => {
      const limits = { authorizations: { inAll: wrong } };
      const [issue, ...more] = issuesIn({ ...DEVELOPMENT, limits });
      expect(issue?.setting).to.equal('limits.authorizations.inAll');
      expect(issue?.expected).to.include('30/10m');
      expect(more).to.deep.equal([]);
    });
  }

  for (const wrong of ['10.0.0.1', '10.0.0.0/33', '2001:db8::/129', 'evil/24', '10.0.0/8', '/8']) {
    it(`the shared network ${JSON.stringify(wrong)} is refused`, () => {
      const [issue] = issuesIn({ ...DEVELOPMENT, limits: { sharedNetworks: [wrong] } });
      expect(issue?.setting).to.match(/^limits\.sharedNetworks\W0/);
      expect(issue?.expected).to.include('203.0.113.0/24');
    });
  }
});
