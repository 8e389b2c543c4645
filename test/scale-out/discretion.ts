// What happens behind the scenes stays there: the last claims of every file about several processes.
import { expect } from 'chai';
import type { Processes } from '../support/scale-out/processes.ts';

export function nothingLeaks(processes: () => Processes): void {
  describe('in all their answers', () => {
    it('say nothing of what the database said', () => {
      const { responses } = processes();
      expect(responses).to.not.have.length(0);
      expect(responses.filter(({ leak }) => leak !== undefined)).to.deep.equal([]);
    });
    it('never fail for a reason of their own', () => {
      const { responses } = processes();
      expect(responses.filter(({ status }) => status >= 500 && status !== 503)).to.deep.equal([]);
    });
  });
}
