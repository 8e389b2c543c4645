import { expect } from 'chai';
import { rootMessage } from '../src/error-causes.ts';
import { createLogger } from '../src/observability/logger.ts';
import { freePorts } from './support/free-ports.ts';

describe('The innermost cause of an error', () => {
  it('says why a fetch failed, also for a name with several addresses', async () => {
    const [port] = await freePorts(1);
    const failure = async (host: string) => {
      const [settled] = await Promise.allSettled([fetch(`http://${host}:${port}/`)]);
      return settled?.status === 'rejected' ? rootMessage(settled.reason) : undefined;
    };
    expect(await failure('127.0.0.1')).to.equal(`connect ECONNREFUSED 127.0.0.1:${port}`);
    expect(await failure('localhost')).to.match(/^connect ECONNREFUSED/);
    expect(rootMessage(new AggregateError([new Error('one'), new Error('two')], ''))).to.equal(
      'two',
    );
  });

  it('quotes nothing that was parsed, because it may be secret', () => {
    const parsing = () => {
      try {
        return JSON.parse('"secret" token');
      } catch (cause) {
        return cause;
      }
    };
    expect(rootMessage(new Error('the body is not JSON', { cause: parsing() }))).to.equal(
      'the body is not JSON',
    );
    expect(rootMessage(parsing())).to.equal('it cannot be parsed');
    expect(rootMessage('secret')).to.equal('unknown error');
  });

  it('is in the log, with the error of each address', () => {
    const lines: string[] = [];
    const logger = createLogger('info', { write: (line: string) => void lines.push(line) });
    const cause = new AggregateError([new Error('first'), new Error('second')], '');
    logger.error({ err: new TypeError('fetch failed', { cause }) }, 'request');
    expect(JSON.parse(lines.join('')).err.cause.errors).to.have.length(2);
    expect(lines.join('')).to.include('"message":"first"').and.include('"message":"second"');
  });
});
