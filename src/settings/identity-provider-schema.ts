// The settings of identity providers: OpenID Connect, and GitHub, which has OAuth 2.0 alone.
import { z } from 'zod';
import { comparableIssuer, isDistinct, issuer, shortId } from './value-types.ts';

export const emailDomain = z.string().regex(/^[\w-]+(\.[\w-]+)+$/, 'a domain such as example.com');

const members = {
  /** Names the provider in rules and, for a listed one, in its callback. */
  id: shortId.default('default'),
  kind: z.enum(['openid', 'github']).default('openid'),
  name: z.string().min(1).max(60).optional(),
  issuer: issuer.optional(),
  clientId: z.string().min(1),
  clientSecret: z.string().min(1).optional(),
  clientSecretFile: z.string().min(1).optional(),
  scopes: z.array(z.string().min(1)).optional(),
  groupsClaim: z.string().min(1).optional(),
  organizations: z.boolean().optional(),
  switchAccountPrompt: z.enum(['login', 'select_account']).default('login'),
  emailDomains: z.array(emailDomain.toLowerCase()).default([]),
};

type Members = z.output<z.ZodObject<typeof members>>;

/** What does not go together: the setting, and what is expected there. */
function conflictsIn(given: Members): [key: keyof Members, expected: string][] {
  const isGithub = given.kind === 'github';
  const refusals: [boolean, keyof Members, string][] = [
    [
      given.clientSecret !== undefined && given.clientSecretFile !== undefined,
      'clientSecretFile',
      'the client secret or a file with it, not both',
    ],
    [!isGithub && given.issuer === undefined, 'issuer', 'the issuer of the OpenID provider'],
    [
      !isGithub && given.organizations !== undefined,
      'organizations',
      'nothing here: only kind github has organizations',
    ],
    [
      isGithub && given.groupsClaim !== undefined,
      'groupsClaim',
      'nothing here: GitHub has no claims; organizations: true reads the organizations of a person',
    ],
  ];
  return refusals.filter(([isWrong]) => isWrong).map(([, key, expected]) => [key, expected]);
}

const OPENID_SCOPES = ['openid', 'profile', 'email'];
const GITHUB_SCOPES = ['read:user', 'user:email'];

function completed<Given extends Members>(given: Given, listed: boolean) {
  const isGithub = given.kind === 'github';
  const { organizations = false } = given;
  const github = [...GITHUB_SCOPES, ...(organizations ? ['read:org'] : [])];
  return {
    ...given,
    listed,
    issuer: given.issuer ?? (isGithub ? 'https://github.com' : ''),
    scopes: given.scopes ?? (isGithub ? github : OPENID_SCOPES),
    groupsClaim: given.groupsClaim ?? 'groups',
    organizations,
  };
}

function refuseConflicts(context: z.core.ParsePayload<Members>): void {
  for (const [key, message] of conflictsIn(context.value))
    context.issues.push({ code: 'custom', path: [key], message, input: context.value });
}

/** The only one. */
export const identityProvider = z
  .strictObject(members)
  .check(refuseConflicts)
  .transform((given) => completed(given, false));

const listedProvider = z
  .strictObject({
    ...members,
    id: shortId,
    name: z.string().min(1).max(60),
  })
  .check(refuseConflicts)
  .transform((given) => completed(given, true));

/** An issuer is in the list once: answers and accounts are told apart by it. */
export const identityProviders = z
  .array(listedProvider)
  .min(1)
  .refine((list) => isDistinct(list.map(({ id }) => id)), 'an id of its own for each')
  .refine(
    (list) => isDistinct(list.map((provider) => comparableIssuer(provider.issuer))),
    'an issuer of its own for each',
  )
  .refine((list) => isDistinct(list.map(({ name }) => name)), 'a name of its own for each')
  .refine(
    (list) => isDistinct(list.flatMap(({ emailDomains }) => emailDomains)),
    'each of emailDomains at one provider only',
  );
