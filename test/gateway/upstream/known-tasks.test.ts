import { expect } from 'chai';
import { filterMessage } from '../../../src/gateway/upstream/filter.ts';
import { filterOptions } from '../../support/upstream/filter-options.ts';

const RELATED = 'io.modelcontextprotocol/related-task';
const about = (taskId: string) => ({ _meta: { [RELATED]: { taskId } } });
const notice = (method: string, params: object) => ({ jsonrpc: '2.0', method, params });
const answer = (result: object) => ({ jsonrpc: '2.0', id: 1, result });

const MESSAGES: Record<string, (taskId: string) => Record<string, unknown>> = {
  'progress of a task': (taskId) => notice('notifications/progress', about(taskId)),
  'the status of a task': (taskId) =>
    notice('notifications/tasks/status', { taskId, status: 'working' }),
  'a task in a result': (taskId) => answer({ taskId, status: 'working' }),
  'the result of a task': (taskId) => answer({ content: [], ...about(taskId) }),
};

describe('A message about a task', () => {
  let reads = 0;
  beforeEach(() => void (reads = 0));

  const options = filterOptions(new Set(['known']), async () => {
    reads += 1;
    return new Set(['new']);
  });
  const filter = (message: Record<string, unknown>) => filterMessage(options, message);

  for (const [what, messageOf] of Object.entries(MESSAGES))
    it(`UPS-03 a message about a task that the call already knows is forwarded without a store read: ${what}`, async () => {
      expect(await filter(messageOf('known'))).to.deep.equal(messageOf('known'));
      expect(reads).to.equal(0);
      expect(await filter(messageOf('new'))).to.deep.equal(messageOf('new'));
      expect(reads).to.equal(1);
      expect(await filter(messageOf('other'))).to.not.deep.equal(messageOf('other'));
    });
});
