// Secrets left as an example has them, or made by leaning on a key: anybody can read or guess those.
import type { Path } from './document.ts';
import { providersIn } from './identity-provider.ts';
import { inProduction } from './production.ts';
import type { Mistake } from './mistake.ts';
import type { SettingsFile } from './schema.ts';
import { hidden, settingName, type Source } from './source.ts';

/** The words of our example, and a few characters over and over. */
const PLACEHOLDERS = [/^change[-_ ]?me/i, /^(.{1,8}?)\1{3,}.{0,7}$/];

/** Of secrets in the settings and, by variable, of those `given` in the environment. `reason` is why this is production. */
export function placeholderMistakes(
  source: Source,
  file: Partial<SettingsFile>,
  given: Readonly<Record<string, string | undefined>>,
  reason: string,
): Mistake[] {
  const { preRegistered = [] } = file.clients ?? {};
  const { introspectionClients = [] } = file.authorization ?? {};
  const named = (path: Path, secret: string | undefined): [string, string | undefined] => [
    settingName(source, path),
    secret,
  ];
  const all = [
    ...preRegistered.map(({ secret }, n) =>
      named(['clients', 'preRegistered', n, 'secret'], secret),
    ),
    ...introspectionClients.map(({ secret }, n) =>
      named(['authorization', 'introspectionClients', n, 'secret'], secret),
    ),
    ...providersIn(file).map(([path, { clientSecret }]) =>
      named([...path, 'clientSecret'], clientSecret),
    ),
    ...Object.entries(given),
  ];
  const expected = `a secret of its own instead of the placeholder, ${inProduction(reason)}`;
  return all
    .filter(([, secret]) => isPlaceholder(secret))
    .map(([setting, secret]) => ({ setting, given: hidden(secret), expected }));
}

function isPlaceholder(secret = ''): boolean {
  return PLACEHOLDERS.some((pattern) => pattern.test(secret));
}
