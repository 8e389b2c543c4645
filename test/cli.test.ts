// The program `gatehouse`. What each command does is tested in management/ and doctor/.
// Starting the program takes most of the time of a command, so that only two of them run as one.
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { expect } from 'chai';
import { createConnector } from '../src/links/connectors.ts';
import {
  accessTo,
  CREATE,
  gatehouse,
  gatehouseProgram,
  MINT,
  spawnGatehouse,
} from './management/command-line.ts';
import { type ManagementHost, openManagementHost } from './management/management-host.ts';

const COMPLETION = ['completion', 'bash'];

describe('the program gatehouse', () => {
  let host: ManagementHost;
  before(async () => {
    host = await openManagementHost();
  });
  after(() => host.close());

  const run = (...args: string[]) => gatehouseProgram(args, accessTo(host));
  const programs: readonly string[][] = [CREATE, COMPLETION];

  for (const [args, printed] of [
    [['account', 'list'], /^Nobody has signed in yet\.\n$/],
    [['audit', '--event', 'code_replay'], /^No matching items\.\n$/],
    [['client', 'list'], /^Nobody has connected an app yet\.\n$/],
    [COMPLETION, /^# Completion of gatehouse in bash\.\n/],
    [CREATE, /^Created a connector\.\n/],
    [['grant', 'list'], /^There are no grants\. Nobody has connected an app\.\n$/],
    [['keys', 'list'], /^ID +STATE +SIGNS FROM +PUBLISHED UNTIL\n/],
    [MINT, /^Minted a token\. It is shown only once\.\n/],
  ] satisfies [string[], RegExp][])
    it(`gatehouse ${args.slice(0, 2).join(' ')} prints its result and exits with 0`, async () => {
      const start = programs.includes(args) ? gatehouseProgram : gatehouse;
      const { code, stdout, stderr } = await start(args, accessTo(host));
      expect({ code, stderr }).to.deep.equal({ code: 0, stderr: '' });
      expect(stdout).to.match(printed);
    });

  it('an error is printed to standard error, and the exit code is 1', async () => {
    expect(await run('account', 'show', 'nobody')).to.deep.equal({
      code: 1,
      stdout: '',
      stderr: 'gatehouse: there is no account with this id, verified email address or name\n',
    });
  });

  it('wrong usage is explained on standard error, and the exit code is 2', async () => {
    expect(await run('connector', 'create', '--level', 'full')).to.deep.equal({
      code: 2,
      stdout: '',
      stderr: "gatehouse: required option '--name <name>' not specified\n",
    });
  });

  it('a reader that closes the pipe early is no error', async () => {
    await createConnector(host.store, { name: 'Ops', level: 'admin' }, 1);
    const child = spawnGatehouse(['connector', 'list'], accessTo(host));
    const closed = once(child, 'close');
    child.stdout.destroy();
    expect(await text(child.stderr)).to.equal('');
    await closed;
    expect(child.exitCode).to.equal(0);
  });
});
