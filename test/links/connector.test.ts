import { expect } from 'chai';
import { changedConnector, type Connector } from '../../src/links/connector.ts';

describe('A change of a connector record', () => {
  const levels = [{ id: 'analytics', recorded: false }];
  const connector: Connector = {
    id: 'A'.repeat(22),
    name: 'Figures',
    level: 'full',
    suggestedLevel: 'operations',
    createdAt: 0,
    used: 0,
    uses: [],
  };

  it('another name keeps the suggested level, also while the settings lack the levels', () => {
    const after = changedConnector(levels, connector, { name: 'Renamed' });
    expect(after).to.deep.equal({ ...connector, name: 'Renamed' });
  });

  it('a lower level removes a suggested level above it', () => {
    const after = changedConnector(levels, connector, { level: 'analytics' });
    expect(after).to.include({ level: 'analytics' }).and.not.have.property('suggestedLevel');
  });
});
