import { expect } from 'chai';
import { readAudit, requestManagement } from '../support/management-api.ts';
import { restartSystem } from '../support/restart.ts';
import { changeSettings } from '../support/settings-file.ts';
import { createDeployment, startDeployment } from '../support/system.ts';
import { until } from '../support/until.ts';

describe('changes of the audit settings', () => {
  it('LOG-19 changes at a reload and at a start are on record with the values before and after, and without secrets', async () => {
    const place = await createDeployment();
    let running = await startDeployment(place);
    const changes = async () =>
      (await readAudit(running)).flatMap(({ event, arguments: details }) =>
        event === 'audit_settings_changed' ? [details] : [],
      );
    const delivery = {
      id: 'siem',
      kind: 'otlp',
      url: 'https://siem.example.com/T0123?token=of-the-receiver',
      headers: { Authorization: 'Bearer of-the-receiver' },
    };
    try {
      changeSettings(running, { audit: { calls: 'recorded' } });
      await requestManagement(running, 'POST', '/settings/reload', {});
      const [reloaded] = await until('the reload to be on record', async () => {
        const found = await changes();
        return found.length === 1 && found;
      });
      const calls = { before: { 'audit.calls': 'all' }, after: { 'audit.calls': 'recorded' } };
      expect(reloaded).to.deep.equal(calls);
      await running.stop();
      running = await restartSystem(place, {
        audit: { calls: 'recorded', addresses: 'none', delivery: [delivery] },
      });
      const [, started] = await until('the start to be on record', async () => {
        const found = await changes();
        return found.length === 2 && found;
      });
      expect(started).to.have.nested.property('before.audit\\.addresses', 'full');
      expect(started).to.have.nested.property('after.audit\\.addresses', 'none');
      expect(started)
        .to.have.nested.property('after.audit\\.delivery\\.siem')
        .that.matches(
          /^{"kind":"otlp","url":"https:\/\/siem.example.com","path":"sha256:\w{16}"}$/,
        );
      expect(JSON.stringify(started)).to.not.match(/of-the-receiver|T0123/);
      expect(await changes()).to.have.lengthOf(2);
    } finally {
      await running.stop();
      await place.release();
    }
  });
});
