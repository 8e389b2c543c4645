import { expect } from 'chai';
import { CREATE, gatehouse, MINT, useCommandLine } from './command-line.ts';

describe('ids that start with a dash', () => {
  const { run, json } = useCommandLine();
  const ID = '-9VnHC-VLEEfnYqNeYStagI_caA';

  it('an id after an option is the value of the option', async () => {
    expect(await json('grant', 'list', '--account', ID)).to.deep.equal({ items: [] });
  });

  it('an id after the command or an option without value is an argument', async () => {
    for (const words of [
      ['grant', 'show', ID],
      ['grant', 'show', '--json', ID],
      ['--json', 'grant', 'show', ID],
    ]) {
      const { code, stderr } = await run(...words);
      expect(code).to.equal(1);
      expect(stderr).to.match(/not_found|there is no grant/);
    }
  });

  it('the shorter id of an app is an argument too', async () => {
    const { code, stderr } = await run('client', 'show', '-bdA3JlXoAZUIsjNAyCE_Q');
    expect(code).to.equal(1);
    expect(stderr).to.include('there is no client');
  });
});

describe('the usage of the command line', () => {
  for (const args of [
    [],
    ['connector'],
    ['connect'],
    ['connector', 'create'],
    ['connector', 'create', '--name', 'Ops'],
    ['connector', 'create', '--level', 'full'],
    [...CREATE, '--max-uses', '0'],
    [...CREATE, '--max-uses', 'many'],
    [...CREATE, '--expires', 'soon'],
    [...CREATE, '--colour', 'red'],
    ['connector', 'show'],
    ['connector', 'revoke', 'a', 'b'],
    ['token'],
    ['token', 'mint', '--name', 'Report'],
    ['token', 'mint', '--level', 'full'],
    [...MINT, '--expires', 'never'],
    [...MINT, '--max-uses', '5'],
    ['token', 'show'],
    ['token', 'revoke'],
    ['grant', 'list', '--state', 'odd'],
    ['keys'],
    ['keys', 'rotate', 'now'],
    ['keys', 'rotate', '--at-once=yes'],
    ['audit', '--since', 'yesterday'],
    ['audit', '--limit', '-1'],
    ['audit', '--event', 'nothing'],
  ]) {
    it(`wrong usage exits with code 2: gatehouse ${args.join(' ')}`, async () => {
      const { code, stdout, stderr } = await gatehouse(args, {});
      expect({ code, stdout }).to.deep.equal({ code: 2, stdout: '' });
      expect(stderr).to.match(/^(gatehouse: |Usage: gatehouse)/);
    });
  }

  it('wrong usage is explained as JSON with --json', async () => {
    const { code, stderr } = await gatehouse(['--json', 'connector', 'create'], {});
    expect(code).to.equal(2);
    expect(JSON.parse(stderr)).to.deep.equal({
      error: 'wrong_usage',
      error_description: "required option '--name <name>' not specified",
    });
  });

  it('the help needs no settings and shows examples', async () => {
    for (const args of [['--help'], ['connector', '--help'], ['connector', 'create', '--help']]) {
      const { code, stdout } = await gatehouse(args, { GATEHOUSE_CONFIG: '/nothing/here.yaml' });
      expect(code).to.equal(0);
      expect(stdout).to.include('gatehouse connector create --name "Ops" --level operations');
      expect(stdout).to.include('--json');
    }
  });
});
