// Completion in a shell: every command, option and choice there is, in a real bash; the scripts for the others know the same.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { expect } from 'chai';
import { gatehouse } from './command-line.ts';

describe('gatehouse completion', function () {
  this.timeout(30_000);
  let script: string;
  before(async () => {
    script = (await gatehouse(['completion', 'bash'], {})).stdout;
  });

  /** What bash offers after these words, of which the last is not finished. */
  async function offered(...words: string[]): Promise<string[]> {
    const ask = `${script}
COMP_WORDS=(gatehouse "$@"); COMP_CWORD=$#; _gatehouse; printf '%s\\n' "\${COMPREPLY[@]}"`;
    const bash = spawn('bash', ['-eu', '-c', ask, 'bash', ...words]);
    const [said, failed] = await Promise.all([text(bash.stdout), text(bash.stderr)]);
    if (bash.exitCode === null) await once(bash, 'exit');
    expect(failed).to.equal('');
    return said.split('\n').filter(Boolean);
  }

  it('offers commands and what they have, as far as they are typed', async () => {
    expect(await offered('')).to.include.members(['connector', 'token', 'audit', 'doctor']);
    expect(await offered('con')).to.deep.equal(['connector']);
    expect(await offered('connector', '')).to.include.members(['create', 'list', 'revoke']);
    expect(await offered('connector', 'create', '--ma')).to.deep.equal(['--max-uses']);
    expect(await offered('--json', 'connector', 'cr')).to.deep.equal(['create']);
  });

  it('offers the choices of options and arguments', async () => {
    const levels = ['analytics', 'operations', 'admin', 'full'];
    expect(await offered('connector', 'create', '--level', '')).to.deep.equal(levels);
    expect(await offered('token', 'mint', '--name', 'connector', '--level', 'an')).to.deep.equal([
      'analytics',
    ]);
    expect(await offered('completion', 'z')).to.deep.equal(['zsh']);
  });

  it('has every command that --help has, in every shell', async () => {
    const { stdout: help } = await gatehouse(['--help'], {});
    const commands = [...(help.split('Commands:')[1] ?? '').matchAll(/^ {2}([a-z]+) /gm)];
    const names = commands.map(([, name = '']) => name).filter((name) => name !== 'help');
    expect(names).to.include.members(['connector', 'completion']);
    for (const shell of ['bash', 'zsh', 'fish']) {
      const { code, stdout } = await gatehouse(['completion', shell], {});
      expect(code).to.equal(0);
      for (const name of [...names, 'create', '--max-uses', 'analytics'])
        expect(stdout, shell).to.match(new RegExp(`[' ]${name}[' ]`));
    }
  });

  it('refuses other shells', async () => {
    expect((await gatehouse(['completion', 'tcsh'], {})).code).to.equal(2);
  });
});
