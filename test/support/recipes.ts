// Reads config/recipes/README.md, and runs its commands.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { until } from './until.ts';

export const ROOT = join(import.meta.dirname, '../..');
const RECIPES = readFileSync(join(ROOT, 'config/recipes/README.md'), 'utf8');

/** The text of a recipe, which starts with its heading. */
export function recipe(heading: string): string {
  const found = RECIPES.split(/^## /m).find((section) => section.startsWith(`${heading}\n`));
  if (!found) throw new Error(`there is no recipe "${heading}"`);
  return found;
}

/** Blocks inside a list are indented. */
function blocks(text: string, language: string): string[] {
  const fences = text.matchAll(/^( *)```(\w+)\n([\s\S]*?)^\1```$/gm);
  return [...fences]
    .filter(([, , found]) => found === language)
    .map(([, indent = '', , block = '']) => block.replaceAll(RegExp(`^${indent}`, 'gm'), ''));
}

/** The line of shell code that contains `part`, with continued lines joined. */
export function commandIn(text: string, part: string): string {
  const lines = blocks(text, 'sh').flatMap((block) => block.replaceAll('\\\n', ' ').split('\n'));
  const line = lines.findLast((each) => each.includes(part));
  if (!line) throw new Error(`the recipe has no command with ${part}`);
  return line;
}

export function settingsIn(text: string) {
  const [block = ''] = blocks(text, 'yaml');
  return parse(block);
}

const running: ChildProcess[] = [];

/** Runs a line of shell code until the tests end, and resolves when it listens on the port. */
export async function runLine(line: string, cwd: string, url: string): Promise<void> {
  const PATH = [join(ROOT, 'node_modules/.bin'), process.env.PATH].join(':');
  // A process group of its own, because a shell does not pass on signals.
  const options = { cwd, env: { ...process.env, PATH }, detached: true } as const;
  const child = spawn('sh', ['-c', line], { ...options, stdio: ['ignore', 'ignore', 'pipe'] });
  running.push(child);
  let errors = '';
  child.stderr.on('data', (text) => (errors += text));
  await until(`${line} to listen`, async () => {
    if (child.exitCode !== null) throw new Error(`${line} ended: ${errors}`);
    return fetch(url).then(
      (response) => response.body?.cancel().then(() => true) ?? true,
      () => false,
    );
  });
}

export async function stopAll(): Promise<void> {
  for (const child of running.splice(0)) {
    if (child.exitCode !== null || child.pid === undefined) continue;
    const exited = once(child, 'exit');
    process.kill(-child.pid, 'SIGKILL');
    await exited;
  }
}
