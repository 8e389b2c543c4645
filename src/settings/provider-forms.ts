// The settings of identity providers: OpenID Connect, and GitHub, which has OAuth 2.0 alone.
import { z } from 'zod';
import { isDistinct, issuer, shortId } from './value-forms.ts';

export const emailDomain = z.string().regex(/^[\w-]+(\.[\w-]+)+$/, 'a domain such as example.com');

const members = {
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
      'nothing here: GitHub has no claims; organizations: true makes organizations groups',
    ],
  ];
  return refusals.filter(([isWrong]) => isWrong).map(([, key, expected]) => [key, expected]);
}

const OPENID_SCOPES = ['openid', 'profile', 'email'];
const GITHUB_SCOPES = ['read:user', 'user:email'];

function completed<Given extends Members>(given: Given) {
  const isGithub = given.kind === 'github';
  const { organizations = false } = given;
  const github = [...GITHUB_SCOPES, ...(organizations ? ['read:org'] : [])];
  return {
    ...given,
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

/** The only one: it needs no id. */
export const identityProvider = z.strictObject(members).check(refuseConflicts).transform(completed);

const listedProvider = z
  .strictObject({
    ...members,
    /** A provider is told apart from others by it: in callbacks, rules and the cookie of the last choice. */
    id: shortId,
    name: z.string().min(1).max(60),
  })
  .check(refuseConflicts)
  .transform(completed);

/** An issuer is in the list once: answers and accounts are told apart by it. */
export const identityProviders = z
  .array(listedProvider)
  .min(1)
  .refine((list) => isDistinct(list.map(({ id }) => id)), 'an id of its own for each')
  .refine(
    (list) => isDistinct(list.map((provider) => new URL(provider.issuer).href)),
    'an issuer of its own for each',
  )
  .refine((list) => isDistinct(list.map(({ name }) => name)), 'a name of its own for each')
  .refine(
    (list) => isDistinct(list.flatMap(({ emailDomains }) => emailDomains)),
    'each of emailDomains at one provider only',
  );
