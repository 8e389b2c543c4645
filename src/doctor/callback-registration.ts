// Whether the identity provider knows Gatehouse: its callback, tried with `prompt=none`, and its secret, tried with a code that is none.
import {
  createSignInChecks,
  type IdentityProvider,
  openIdentityProvider,
} from '../authorization-server/interactions/identity-provider.ts';
import {
  belowPath,
  CALLBACK_PATH,
} from '../authorization-server/interactions/identity-providers.ts';
import type { IdentityProvider as ProviderSettings } from '../settings/identity-provider.ts';
import { type Answer, kindOf, NoAnswer } from './ask.ts';
import { type Deployment, settingsOf } from './deployment.ts';
import { type Finding, type Words, wordsOf } from './finding.ts';

/** Nobody is signed in here, so these mean that all else was right (OpenID Connect Core section 3.1.2.6). */
const AS_IT_SHOULD =
  /^(login_required|interaction_required|consent_required|account_selection_required)$/;
/** How providers say it that answer with a page. */
const MISMATCH = /redirect_uri_mismatch|AADSTS50011|invalid[ _]redirect|redirect_?uri/i;

export async function callbackFindings(
  deployment: Deployment,
  settings: ProviderSettings,
): Promise<Finding[]> {
  const path = belowPath(CALLBACK_PATH, settings.listed ? settings.id : undefined);
  const callback = settingsOf(deployment).authUrl + path;
  const provider = openIdentityProvider(settings, callback);
  return [
    await registration(deployment, provider, callback),
    ...(settings.clientSecret === undefined
      ? []
      : [await secretFinding(provider, settings.issuer)]),
  ];
}

async function registration(
  { askTrusted }: Deployment,
  provider: IdentityProvider,
  callback: string,
): Promise<Finding> {
  const words = wordsOf('callback', callback);
  try {
    const url = await provider.signInUrl(createSignInChecks('doctor'));
    url.searchParams.set('prompt', 'none');
    return judge(words, callback, await askTrusted(url.href));
  } catch (error) {
    const reason = error instanceof NoAnswer ? error.message : 'its metadata cannot be used';
    return words.problem({
      what: `the page for signing in does not answer: ${reason}`,
      why: 'nobody can sign in',
      remedy: 'check that the identity provider is up, and reachable from here',
    });
  }
}

function judge(words: Words, callback: string, answer: Answer): Finding {
  const target = URL.parse(answer.header('location') ?? '');
  const isBack = target !== null && target.origin + target.pathname === callback;
  const error = target?.searchParams.get('error') ?? '';
  if (isBack && (error === '' || AS_IT_SHOULD.test(error)))
    return words.ok('the identity provider knows this callback');
  if (isBack)
    return refused(words, `${error} ${target.searchParams.get('error_description') ?? ''}`);
  const said = `${answer.text} ${target?.href ?? ''}`;
  if (answer.status >= 400 || MISMATCH.test(said)) return unregistered(words, callback, answer);
  return words.ok('the identity provider did not refuse this callback, as far as can be seen');
}

function refused(words: Words, reason: string): Finding {
  return words.problem({
    what: `the identity provider refuses to sign anybody in: ${reason.trim()}`,
    why: 'nobody can sign in',
    remedy:
      'compare the registration of this client there with identityProvider (clientId, scopes): code flow, web application',
  });
}

function unregistered(words: Words, callback: string, answer: Answer): Finding {
  const said = MISMATCH.exec(answer.text)?.[0];
  return words.problem({
    what: `the identity provider refuses the request (${said ? `it says “${said}”` : kindOf(answer)})`,
    why: 'nobody can sign in: most likely this callback is not registered, or the client id is another one',
    remedy: `register ${callback} there as a redirect address, character by character, and check identityProvider.clientId`,
  });
}

/** The answer to a code that is none: who has the wrong secret is told that first (RFC 6749 section 5.2). */
async function secretFinding(provider: IdentityProvider, issuer: string): Promise<Finding> {
  const words = wordsOf('client-secret', issuer);
  const checks = createSignInChecks('doctor');
  const query = new URLSearchParams({ code: 'gatehouse-doctor', state: checks.state, iss: issuer });
  const failure: unknown = await provider.identify(`?${query}`, checks).catch((cause) => cause);
  const code = errorCodeIn(failure);
  if (code === 'invalid_grant' || code === 'bad_verification_code')
    return words.ok('the identity provider accepts the client secret');
  if (!/^(invalid_client|unauthorized_client|incorrect_client_credentials)$/.test(code ?? ''))
    return words.unknown('the identity provider does not say whether the client secret is right');
  return words.problem({
    what: `the identity provider refuses Gatehouse (${code})`,
    why: 'people come back from signing in and are told that it cannot be trusted',
    remedy:
      'give the secret that is registered there (GATEHOUSE_IDENTITY_PROVIDER_SECRET, or clientSecretFile of one of several); it may have expired',
  });
}

/** The `error` of the token endpoint, wherever openid-client put it. */
function errorCodeIn(failure: unknown): string | undefined {
  if (typeof failure !== 'object' || failure === null) return undefined;
  if ('error' in failure && typeof failure.error === 'string') return failure.error;
  if ('body' in failure) return errorCodeIn(failure.body);
  return 'cause' in failure ? errorCodeIn(failure.cause) : undefined;
}
