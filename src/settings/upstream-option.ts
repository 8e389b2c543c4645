// The settings of `gatehouse start --upstream URL` without a settings file: the development settings in front of an MCP server.
import { isMapping, valueAt, withValue } from './source.ts';

/** Lowest first; `gatehouse init` suggests them too. With `toolLevels: annotations`, tools that only read need the first, those that add the second, all others the third. */
export const TRIAL_LEVELS = [
  {
    id: 'read',
    title: { en: 'Read', de: 'Lesen', es: 'Leer', fr: 'Lire', ja: '読み取り', pt: 'Ler' },
  },
  {
    id: 'write',
    title: {
      en: 'Read and add',
      de: 'Lesen und hinzufügen',
      es: 'Leer y añadir',
      fr: 'Lire et ajouter',
      ja: '読み取りと追加',
      pt: 'Ler e adicionar',
    },
  },
  {
    id: 'full',
    title: { en: 'Everything', de: 'Alles', es: 'Todo', fr: 'Tout', ja: 'すべて', pt: 'Tudo' },
    recorded: true,
  },
];

/** The first person of the development settings may have the highest level, the second the second highest, and others none. */
const PERSON_LEVELS = ['full', 'write'];

/** Returns the development settings with levels for the tools of an MCP server, whose address the option sets. */
export function withTrialLevels(tree: unknown): unknown {
  const people = valueAt(tree, ['developmentIdp', 'people']);
  const ids = Array.isArray(people)
    ? people.filter(isMapping).map((person) => String(person['id']))
    : [];
  const entitlements = PERSON_LEVELS.flatMap((level, n) => {
    const subject = ids[n];
    return subject === undefined ? [] : [{ match: { subject }, level }];
  });
  return [
    [['levels'], TRIAL_LEVELS] as const,
    [['entitlements'], entitlements] as const,
    [['resourceServer', 'upstream', 'toolLevels'], 'annotations'] as const,
  ].reduce((before, [path, value]) => withValue(before, path, value), tree);
}
