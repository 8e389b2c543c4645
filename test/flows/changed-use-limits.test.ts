// Limits of uses that an administrator sets, changes and removes while people connect.
import { expect } from 'chai';
import { connect, openConsent } from '../support/connection.ts';
import { createConnector, requestManagement, showConnector } from '../support/management-api.ts';
import { onEachStore } from '../support/system.ts';
import { until } from '../support/until.ts';

onEachStore('A changed limit of uses', (system) => {
  const change = (id: string, maxUses: number | null) =>
    requestManagement(system(), 'PATCH', `/connectors/${id}`, { maxUses });

  const isUsedUp = async (connector: { link: string }) => {
    const { page } = await openConsent(system(), connector);
    return page.status === 403 && page.html.includes('used up');
  };

  it('CHG-06 a first limit counts the uses so far, and who is connected needs no other use to connect again', async () => {
    const connector = await createConnector(system());
    const ada = await connect(system(), connector);
    await connect(system(), connector, { person: 'grace' });
    await change(connector.id, 2);
    expect(await showConnector(system(), connector.id)).to.include({ state: 'used-up', uses: 2 });
    expect(await isUsedUp(connector)).to.equal(true);
    const again = await connect(system(), connector, { as: ada });
    expect(again.accessToken).to.be.a('string');
    expect(await showConnector(system(), connector.id)).to.include({ state: 'used-up', uses: 2 });
  });

  it('a first limit above the uses so far leaves the difference', async () => {
    const connector = await createConnector(system());
    await connect(system(), connector);
    await change(connector.id, 2);
    expect(await showConnector(system(), connector.id)).to.include({ state: 'active', uses: 1 });
    await connect(system(), connector);
    expect(await isUsedUp(connector)).to.equal(true);
  });

  it('a lower limit takes nothing from those who are connected, and a higher or removed one lets others connect', async () => {
    const connector = await createConnector(system(), { maxUses: 3 });
    await connect(system(), connector);
    const { client, browser } = await connect(system(), connector);
    await change(connector.id, 1);
    expect(await showConnector(system(), connector.id)).to.include({ state: 'used-up', uses: 2 });
    expect(await isUsedUp(connector)).to.equal(true);
    await connect(system(), connector, { as: { client, browser } });
    await change(connector.id, 3);
    await connect(system(), connector);
    expect(await isUsedUp(connector)).to.equal(true);
    await change(connector.id, null);
    await connect(system(), connector);
    // Without a limit, no use is reserved: it counts once it is written, after the response.
    const state = () => showConnector(system(), connector.id);
    await until('the last use counts', async () => (await state()).uses === 4);
    expect(await state()).to.include({ state: 'active' });
    await change(connector.id, 4);
    expect(await isUsedUp(connector)).to.equal(true);
  });
});
