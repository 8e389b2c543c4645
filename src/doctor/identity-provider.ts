// The identity provider as Gatehouse meets it: its discovery document, its keys and its clock (OpenID Connect Discovery section 4).
import { identityProvidersOf } from '../authorization-server/app.ts';
import type { IdentityProvider } from '../settings/identity-provider.ts';
import { type Answer, jsonOf, kindOf, NoAnswer } from './ask.ts';
import { dateFinding } from './clocks.ts';
import { type Deployment, settingsOf } from './deployment.ts';
import { type Finding, type Words, wordsOf } from './finding.ts';
import { callbackFindings } from './callback-registration.ts';

type Metadata = Record<string, unknown>;

/** Of each in turn. */
export async function identityProviderFindings(deployment: Deployment): Promise<Finding[]> {
  const findings: Finding[] = [];
  for (const provider of identityProvidersOf(settingsOf(deployment)))
    findings.push(...(await findingsOf(deployment, provider)));
  return findings;
}

async function findingsOf(
  deployment: Deployment,
  identityProvider: IdentityProvider,
): Promise<Finding[]> {
  // It has no documents to look at.
  if (identityProvider.kind === 'github') return callbackFindings(deployment, identityProvider);
  const words = wordsOf('identity-provider', identityProvider.issuer);
  const answer = await discover(deployment, identityProvider.issuer);
  if (answer instanceof NoAnswer) return [away(words, answer.message)];
  const metadata = jsonOf(answer);
  if (answer.status !== 200 || !metadata) return [noDocument(words, answer)];
  const issuer = issuerFinding(identityProvider.issuer, metadata.issuer);
  const rest = [
    dateFinding(identityProvider.issuer, answer),
    ...(await keyFindings(deployment, words, metadata)),
    ...supportFindings(words, identityProvider, metadata),
  ];
  if (issuer.outcome !== 'ok') return [issuer, ...rest];
  return [
    words.ok('it answers'),
    issuer,
    ...rest,
    ...(await callbackFindings(deployment, identityProvider)),
  ];
}

async function discover({ askTrusted }: Deployment, issuer: string): Promise<Answer | NoAnswer> {
  const url = `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`;
  return askTrusted(url).catch((error: unknown) => {
    if (error instanceof NoAnswer) return error;
    throw error;
  });
}

const NOBODY = 'nobody can sign in; who is connected stays connected';

function away(words: Words, reason: string): Finding {
  return words.problem({
    what: `the identity provider does not answer from here: ${reason}`,
    why: NOBODY,
    remedy: 'check identityProvider.issuer, and that this machine may connect to it',
  });
}

function noDocument(words: Words, answer: Answer): Finding {
  return words.problem({
    what: `it has no discovery document, but ${kindOf(answer)}`,
    why: NOBODY,
    remedy:
      'set identityProvider.issuer so that /.well-known/openid-configuration after it opens the document',
  });
}

function issuerFinding(expected: string, found: unknown): Finding {
  const words = wordsOf('identity-provider-issuer', expected);
  if (found === expected) return words.ok('its issuer is the one of the settings');
  return words.problem({
    what: `it calls itself ${String(found)}`,
    why: 'sign-ins are refused, because what it signs is not from the issuer of the settings',
    remedy: `set identityProvider.issuer to ${String(found)}, every character of it, if that is the one you mean`,
  });
}

async function keyFindings(
  { askTrusted }: Deployment,
  words: Words,
  { jwks_uri: url }: Metadata,
): Promise<Finding[]> {
  const keys = await askTrusted(String(url)).then(
    (answer) => jsonOf(answer)?.keys,
    () => undefined,
  );
  if (Array.isArray(keys) && keys.length > 0) return [];
  return [
    words.problem({
      what: `its keys cannot be read (${String(url)})`,
      why: 'what it signs cannot be verified, so that nobody can sign in',
      remedy: 'check that this machine may connect to that address',
    }),
  ];
}

/** What it says it can do; what it says nothing about it may still be able to do. */
function supportFindings(
  words: Words,
  { scopes }: IdentityProvider,
  { scopes_supported: offered, code_challenge_methods_supported: methods }: Metadata,
): Finding[] {
  const missing = Array.isArray(offered) ? scopes.filter((name) => !offered.includes(name)) : [];
  const lacksPkce = Array.isArray(methods) && !methods.includes('S256');
  const unknownScopes = words.warning({
    what: `it does not offer the scope ${missing.join(', ')}`,
    why: 'it may refuse sign-ins, or say less about people than entitlements need',
    remedy: 'set identityProvider.scopes to what it offers',
  });
  const noPkce = words.warning({
    what: 'it does not offer PKCE with S256',
    why: 'an intercepted code is less well protected',
    remedy: 'switch PKCE on for this client, where the provider can',
  });
  return [...(missing.length > 0 ? [unknownScopes] : []), ...(lacksPkce ? [noPkce] : [])];
}
