// Secrets left as an example has them, or made by leaning on a key: anybody can read or guess those.
import type { Path } from './document.ts';
import { providersIn } from './identity-provider.ts';
import { inProduction } from './production.ts';
import type { SettingsIssue } from './issues.ts';
import type { SettingsFile } from './schema.ts';
import { hidden, settingName, type Source } from './source.ts';

/** The words of examples, templates that nobody filled in, the first keys of a keyboard, and a few characters over and over. */
const PLACEHOLDERS = [
  /^(change|replace)[-_ ]?(me|this|it)/i,
  /^(your|insert|enter|example|sample|placeholder|default|dummy|super[-_ ]?secret)[-_ ]/i,
  /\$\(.*\)|\$\{.*\}|\{\{.*\}\}|^<.*>$/,
  /^(0?12345678|abcdefgh)/i,
  /^(.{1,8}?)\1{3,}.{0,7}$/,
];
/** Characters: a random secret of this length has more different ones. */
const LONG = 24;
const FEW_DIFFERENT = 7;

/** By the setting each is from, a variable or a path in the file. `app`: what we are called at the identity provider that knows it. */
export type NamedSecrets = readonly (readonly [
  setting: string,
  secret: string | undefined,
  app?: string,
])[];

/** The secrets that the settings file itself has, by setting. */
export function secretsInFile(source: Source, file: Partial<SettingsFile>): NamedSecrets {
  const { preRegistered = [] } = file.clients ?? {};
  const { introspectionClients = [] } = file.authorization ?? {};
  const named = (path: Path, secret: string | undefined) =>
    [settingName(source, path), secret] as const;
  return [
    ...preRegistered.map(({ secret }, n) =>
      named(['clients', 'preRegistered', n, 'secret'], secret),
    ),
    ...introspectionClients.map(({ secret }, n) =>
      named(['authorization', 'introspectionClients', n, 'secret'], secret),
    ),
    ...providersIn(file).map(
      ([path, { clientSecret, clientId }]) =>
        [...named([...path, 'clientSecret'], clientSecret), clientId] as const,
    ),
  ];
}

/** `reason` is why this is production. */
export function checkPlaceholders(secrets: NamedSecrets, reason: string): SettingsIssue[] {
  const expected = `a secret of its own instead of the placeholder, ${inProduction(reason)}`;
  return secrets
    .filter(([, secret]) => isPlaceholder(secret))
    .map(([setting, secret]) => ({ setting, given: hidden(secret), expected }));
}

function isPlaceholder(secret = ''): boolean {
  if (secret.length >= LONG && new Set(secret).size <= FEW_DIFFERENT) return true;
  return PLACEHOLDERS.some((pattern) => pattern.test(secret));
}
