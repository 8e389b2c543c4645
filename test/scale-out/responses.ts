import { expect } from 'chai';
import type { Processes } from '../support/scale-out/processes.ts';

export function testResponses(processes: () => Processes): void {
  describe('the recorded responses', () => {
    it('no response of the instances contains text of the database', () => {
      const { responses } = processes();
      expect(responses).to.not.have.length(0);
      expect(responses.filter(({ leak }) => leak !== undefined)).to.deep.equal([]);
    });
    it('no response of the instances is a server error other than 503', () => {
      const { responses } = processes();
      expect(responses.filter(({ status }) => status >= 500 && status !== 503)).to.deep.equal([]);
    });
  });
}
