import { expect } from 'chai';
import type { Level } from '../../src/permission-levels.ts';
import { createConnector } from '../support/management-api.ts';
import { openBrowser, type Page, type Person } from '../support/browser.ts';
import { connect, requestAuthorization } from '../support/connection.ts';
import { useSystem } from '../support/system.ts';

describe('The level that the consent page preselects', () => {
  const system = useSystem();

  function levelsOf(page: Page) {
    const choices = page.forms
      .flatMap(({ controls }) => controls)
      .filter(({ name }) => name === 'level');
    return {
      offered: choices.map(({ value }) => value),
      selected: choices.filter(({ checked }) => checked).map(({ value }) => value),
    };
  }

  type Case = {
    level: Level;
    suggestedLevel?: Level;
    scope?: string;
    person?: Person;
    selected: Level;
  };

  const CASES: [string, Case][] = [
    ['is the level of the connector', { level: 'admin', selected: 'admin' }],
    ['is never one whose calls are audited', { level: 'full', selected: 'admin' }],
    [
      'is not one whose calls are audited, even if it is requested',
      { level: 'full', scope: 'full', selected: 'admin' },
    ],
    [
      'is not one whose calls are audited, even if it is suggested',
      { level: 'full', suggestedLevel: 'full', selected: 'admin' },
    ],
    [
      'is what the connector suggests',
      { level: 'full', suggestedLevel: 'operations', selected: 'operations' },
    ],
    [
      'is what the connector suggests if more is requested',
      { level: 'full', suggestedLevel: 'analytics', scope: 'admin', selected: 'analytics' },
    ],
    [
      'is what the client requests if more is suggested',
      { level: 'full', suggestedLevel: 'admin', scope: 'operations', selected: 'operations' },
    ],
    [
      'is what the person may have if more is suggested',
      { level: 'full', suggestedLevel: 'admin', person: 'grace', selected: 'operations' },
    ],
  ];
  for (const [title, { level, suggestedLevel, scope, person, selected }] of CASES) {
    it(`CON-20 the preselected level ${title}`, async () => {
      const suggested = suggestedLevel ? { suggestedLevel } : {};
      const { link } = await createConnector(system(), { level, ...suggested });
      const { url } = await requestAuthorization(system(), { link }, { scope });
      const page = await openBrowser(system().origins).openConsent(url, person);
      expect(levelsOf(page).selected).to.deep.equal([selected]);
    });
  }

  it('CON-20 the preselected level is only a suggestion: the person may choose any level up to the connector’s', async () => {
    const connector = await createConnector(system(), {
      level: 'full',
      suggestedLevel: 'analytics',
    });
    const { scope } = await connect(system(), connector, { level: 'full' });
    expect(scope).to.equal('full offline_access');
    const suggested = await connect(system(), connector);
    expect(suggested.scope).to.equal('analytics offline_access');
  });
});
