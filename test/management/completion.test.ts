import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { expect } from 'chai';
import { accessTo, gatehouse } from './command-line.ts';
import { openManagementHost } from './management-host.ts';

const SHELLS = ['bash', 'zsh', 'fish'];

describe('gatehouse completion', () => {
  const scripts: Record<string, string> = {};
  before(async () => {
    const host = await openManagementHost();
    try {
      for (const shell of SHELLS) {
        const { code, stdout, stderr } = await gatehouse(['completion', shell], accessTo(host));
        expect(stderr).to.equal('');
        expect(code).to.equal(0);
        scripts[shell] = stdout;
      }
    } finally {
      await host.close();
    }
  });

  it('without a running Gatehouse, the script completes all but the levels, and says so', async () => {
    const { code, stdout, stderr } = await gatehouse(['completion', 'bash'], {});
    expect(code).to.equal(0);
    expect(stderr).to.match(/does not complete levels/);
    expect(stdout).to.not.contain('analytics');
    expect(stdout).to.contain("'connector create --level') candidates='' ;;");
  });

  /** What bash offers after these words, of which the last is not finished. */
  async function offered(...words: string[]): Promise<string[]> {
    const ask = `${scripts['bash']}
COMP_WORDS=(gatehouse "$@"); COMP_CWORD=$#; _gatehouse; printf '%s\\n' "\${COMPREPLY[@]}"`;
    const bash = spawn('bash', ['--norc', '-u', '-c', ask, 'bash', ...words]);
    const [said, failed] = await Promise.all([text(bash.stdout), text(bash.stderr)]);
    if (bash.exitCode === null) await once(bash, 'exit');
    expect(failed).to.equal('');
    return said.split('\n').filter(Boolean);
  }

  it('bash completes commands, subcommands and options by prefix', async () => {
    expect(await offered('')).to.include.members(['connector', 'token', 'audit', 'doctor']);
    expect(await offered('con')).to.deep.equal(['connector']);
    expect(await offered('connector', '')).to.include.members(['create', 'list', 'revoke']);
    expect(await offered('connector', 'create', '--ma')).to.deep.equal(['--max-uses']);
    expect(await offered('--json', 'connector', 'cr')).to.deep.equal(['create']);
  });

  it('bash completes the choices of options and arguments', async () => {
    const levels = ['analytics', 'operations', 'admin', 'full'];
    expect(await offered('connector', 'create', '--level', '')).to.deep.equal(levels);
    expect(await offered('token', 'mint', '--name', 'connector', '--level', 'an')).to.deep.equal([
      'analytics',
    ]);
    expect(await offered('completion', 'z')).to.deep.equal(['zsh']);
  });

  it('bash offers nothing for a free-form option value', async () => {
    expect(await offered('connector', 'create', '--name', '')).to.deep.equal([]);
    expect(await offered('connector', 'create', '--name', 'x', '--le')).to.deep.equal(['--level']);
  });

  it('the scripts of all shells offer the same candidates', () => {
    const places = SHELLS.map((shell) => placesIn(scripts[shell] ?? ''));
    expect(places[0]?.length).to.be.above(40);
    expect(places).to.deep.equal(SHELLS.map(() => places[0]));
  });

  it('the fish script never compares a value that can be empty', () => {
    expect(scripts['fish']).to.not.match(/(^|;|\b(if|while|and|or|not)) *test\b/m);
    expect(scripts['fish']?.match(/^ *switch .*$/gm)).to.deep.equal([
      '    switch "$command $word"',
      '  switch "$command"',
      '  switch "$command $words[-1]"',
    ]);
  });

  it('the scripts contain every command of --help', async () => {
    const { stdout: help } = await gatehouse(['--help'], {});
    const commands = [...(help.split('Commands:')[1] ?? '').matchAll(/^ {2}([a-z]+) /gm)];
    const names = commands.map(([, name = '']) => name).filter((name) => name !== 'help');
    expect(names).to.include.members(['connector', 'completion']);
    for (const shell of SHELLS) {
      for (const name of [...names, 'create', '--max-uses', 'analytics'])
        expect(scripts[shell], shell).to.match(new RegExp(`[' ]${name}[' ]`));
    }
  });

  it('an unknown shell is refused', async () => {
    expect((await gatehouse(['completion', 'tcsh'], {})).code).to.equal(2);
  });
});

/** Each place with what is offered there, of a script for any shell. */
function placesIn(script: string): string[] {
  const inFish = script.matchAll(/^ *case '([^']*)'\n *set candidates ?(.*)$/gm);
  const inOthers = script.matchAll(/^ *'([^']*)'\) candidates='(.*)' ;;$/gm);
  return [...inFish, ...inOthers].map(([, place = '', offer]) => `${place.trim()}: ${offer}`);
}
