// The table of identity providers in config/identity-providers.md, and the settings that it recommends for each.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { format, resolveConfig } from 'prettier';
import { parse } from 'yaml';
import { type RecordedProvider, STEPS } from './providers/recorded-provider.ts';

export const DOCUMENT = join(import.meta.dirname, '../../config/identity-providers.md');

const START = '<!-- tested providers: npm run providers writes this table -->';
const END = '<!-- end of tested providers -->';

type Recommended = {
  identityProvider: { issuer: string } & Record<string, unknown>;
  entitlements: { match: Record<string, string>; level: string }[];
};

/** The settings in the section of the provider. */
export function recommendedSettings({ name }: Pick<RecordedProvider, 'name'>): Recommended {
  const [, section = ''] = readFileSync(DOCUMENT, 'utf8').split(`\n## ${name}\n`);
  const [, block] = /```yaml\n([\s\S]*?)```/.exec(section.split('\n## ')[0] ?? '') ?? [];
  if (!block) throw new Error(`the document has no settings for ${name}`);
  return parse(block) as Recommended;
}

/** Returns `document` with its table replaced. */
export async function withTable(
  document: string,
  providers: readonly RecordedProvider[],
): Promise<string> {
  const [before, after] = [document.indexOf(START), document.indexOf(END)];
  if (before < 0 || after < before) throw new Error('the document has no place for the table');
  const text = `${document.slice(0, before)}${START}\n\n${tableOf(providers)}\n\n${document.slice(after)}`;
  return format(text, { ...(await resolveConfig(DOCUMENT)), parser: 'markdown' });
}

function tableOf(providers: readonly RecordedProvider[]): string {
  const cells = providers.flatMap(({ steps }) => STEPS.map((step) => steps[step]));
  const notes = [...new Set(cells.flatMap((cell) => (cell === 'tested' ? [] : cell.because)))];
  const cellOf = (cell: (typeof cells)[number]) =>
    cell === 'tested' ? '✓' : `– ${notes.indexOf(cell.because) + 1}`;
  const rows = providers.map(({ name, steps }) => [
    name,
    ...STEPS.map((step) => cellOf(steps[step])),
  ]);
  const lines = [['provider', ...STEPS], ['-', ...STEPS.map(() => '-')], ...rows];
  return [
    ...lines.map((line) => `| ${line.join(' | ')} |`),
    '',
    ...notes.map((note, index) => `${index + 1}. ${note}`),
  ].join('\n');
}
