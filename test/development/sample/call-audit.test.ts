import { expect } from 'chai';
import { openDataset } from '../../../src/development/sample/dataset.ts';
import { callBody, callerWith, failureOf, post, useMcp } from './mcp-host.ts';
import { SAMPLE_CALLS } from './sample-calls.ts';

describe('the audit of calls with the level full', () => {
  const { serve, connect } = useMcp();

  it('every call is audited with the caller and the arguments as sent', async () => {
    const caller = callerWith('full');
    const { url, records } = await serve(caller);
    const client = await connect(url);
    for (const { tool, given } of SAMPLE_CALLS) {
      await client.callTool({ name: tool.name, arguments: given });
    }
    expect(records).to.deep.equal(
      SAMPLE_CALLS.map(({ tool, given }) => ({
        caller,
        tool: tool.name,
        argumentsJson: JSON.stringify(given),
        outcome: 'allowed',
      })),
    );
  });

  it('each call of a batch is audited separately, also if it fails', async () => {
    const { url, records } = await serve(callerWith('full'));
    const batch = [
      callBody('club_overview', {}, 1),
      callBody('find_members', { page: 'x' }, 2),
      callBody('nothing', {}, 3),
    ];
    await (await post(url, batch)).text();
    expect(records.map(({ tool }) => tool)).to.have.members([
      'club_overview',
      'find_members',
      'nothing',
    ]);
  });

  it('a call is audited before the response is sent', async () => {
    const events: string[] = [];
    const recording = Promise.withResolvers<void>();
    const stored = Promise.withResolvers<void>();
    const audit = async () => {
      recording.resolve();
      await stored.promise;
      events.push('recorded');
    };
    const full = await connect((await serve(callerWith('full'), { audit })).url);
    const other = await connect((await serve(callerWith('operations'))).url);
    const answer = full.callTool({ name: 'club_overview' }).then(() => events.push('answered'));
    await recording.promise;
    await other.callTool({ name: 'club_overview' });
    events.push('another was answered');
    stored.resolve();
    await answer;
    expect(events).to.deep.equal(['another was answered', 'recorded', 'answered']);
  });

  it('a call that cannot be audited is refused with a JSON-RPC error and does not run', async () => {
    const unusable = openDataset();
    unusable.close();
    const fault = new Error('the store cannot be reached');
    const { url, errors } = await serve(callerWith('full'), {
      dataset: () => unusable,
      audit: () => Promise.reject(fault),
    });
    const error = await failureOf((await connect(url)).callTool({ name: 'club_overview' }));
    expect(error).to.include({ code: -32603 });
    expect(error.message)
      .to.match(/recorded/)
      .and.not.match(/store/);
    expect(errors).to.deep.equal([fault]);
  });

  it('calls with a lower level are not audited', async () => {
    const { url, records } = await serve(callerWith('admin', 'full'));
    const client = await connect(url);
    for (const { tool, given } of SAMPLE_CALLS) {
      await client.callTool({ name: tool.name, arguments: given });
    }
    expect(records).to.deep.equal([]);
  });
});
