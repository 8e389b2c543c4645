import { expect } from 'chai';
import type { AuditItem } from '../../src/audit/audit.ts';
import type { Restoring, Subject } from '../../src/restore/subjects/subject.ts';
import { machineChange } from '../../src/restore/subjects/machine.ts';
import { tokenChange } from '../../src/restore/subjects/token.ts';
import { createConnector, readAudit, requestManagement } from '../support/management-api.ts';
import { useSystem } from '../support/system.ts';
import { openSystemStore } from '../support/system-store.ts';

const MANY = Array.from({ length: 150 }, (_, n) => `a_tool_with_quite_a_long_name_${n}`);

describe('A replay of a change that was too long for the audit log', () => {
  const system = useSystem();

  /** Plans the replay of the last such change. Returns whether it did something, and the hint afterwards. */
  async function replay(event: string, subject: Subject) {
    const item = (await readAudit(system())).findLast((each) => each.event === event);
    expect(item?.arguments).to.have.property('sha256');
    const items = [item as unknown as AuditItem];
    const id = subject.idIn(items[0] as AuditItem) ?? '';
    const { store } = await openSystemStore(system());
    const services = { store, now: () => Date.now() / 1000 };
    const restoring = { services } as unknown as Restoring;
    try {
      const step = await subject.plan(restoring, id, items);
      await step?.();
      const again = await subject.plan(restoring, id, items);
      return {
        isDone: step !== undefined && !again,
        hint: await subject.hint?.(restoring, id, items),
      };
    } finally {
      await store.close();
    }
  }

  it('RST-04 revokes the minted token, and says to mint another', async () => {
    const minted = (await requestManagement(system(), 'POST', '/tokens', {
      name: 'Long',
      level: 'analytics',
      tools: MANY,
    })) as { id: string };
    await requestManagement(system(), 'PATCH', `/tokens/${minted.id}`, { tools: MANY.slice(0, 1) });
    const { isDone, hint } = await replay('token_changed', tokenChange);
    expect(isDone).to.equal(true);
    expect(hint).to.include('mint another');
  });

  it('RST-04 disconnects the machine, and says to create another', async () => {
    const { id: connector } = await createConnector(system());
    const machine = (await requestManagement(system(), 'POST', '/clients', {
      name: 'Long',
      connector,
      level: 'analytics',
      tools: MANY,
    })) as { id: string };
    const change = { id: machine.id, tools: MANY.slice(0, 1) };
    await requestManagement(system(), 'PATCH', '/clients', change);
    const { isDone, hint } = await replay('machine_changed', machineChange);
    expect(isDone).to.equal(true);
    expect(hint).to.include('create another');
  });
});
