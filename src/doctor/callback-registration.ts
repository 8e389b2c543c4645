// Whether the identity provider knows Gatehouse: its callbacks, tried with `prompt=none`, and its secret, tried with a code that does not exist.
import {
  createLoginState,
  type IdentityProvider,
  openIdentityProvider,
} from '../authorization-server/interactions/identity-provider.ts';
import {
  providerCallback,
  CALLBACK_PATH,
} from '../authorization-server/interactions/identity-providers.ts';
import { printableText } from '../authorization-server/interactions/provider-error.ts';
import { CALLBACK_PATH as CONSOLE_CALLBACK_PATH } from '../management/console/sign-in.ts';
import type { IdentityProvider as ProviderSettings } from '../settings/identity-provider.ts';
import type { Settings } from '../settings/settings.ts';
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
  const [callback = '', ...others] = callbacksOf(settingsOf(deployment)).map((path) =>
    providerCallback(settings, path),
  );
  const provider = openIdentityProvider(settings, callback);
  const findings = [await registration(deployment, provider, callback)];
  for (const other of others)
    findings.push(await registration(deployment, openIdentityProvider(settings, other), other));
  return [...findings, await clientFinding(provider, settings)];
}

/** Administrators come back to the console. */
function callbacksOf({ authUrl, managementUrl, management }: Settings): string[] {
  const isConsoleOn = management.administrators.length > 0;
  return [authUrl + CALLBACK_PATH, ...(isConsoleOn ? [managementUrl + CONSOLE_CALLBACK_PATH] : [])];
}

async function registration(
  { askTrusted }: Deployment,
  provider: IdentityProvider,
  callback: string,
): Promise<Finding> {
  const words = wordsOf('callback', callback);
  try {
    const url = await provider.authorizationUrl(createLoginState('doctor'));
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
  const said = `${answer.text} ${target?.href ?? ''} ${errorOfGoogle(target)}`;
  if (answer.status >= 400 || MISMATCH.test(said))
    return unregistered(words, callback, answer, MISMATCH.exec(said)?.[0]);
  return words.ok('the identity provider did not refuse this callback, as far as can be seen');
}

/** Google redirects to a page of its own, with the error in the query, encoded. */
function errorOfGoogle(target: URL | null): string {
  return Buffer.from(target?.searchParams.get('authError') ?? '', 'base64').toString('latin1');
}

function refused(words: Words, reason: string): Finding {
  return words.problem({
    what: `the identity provider refuses to sign anybody in: ${printableText(reason, 300)}`,
    why: 'nobody can sign in',
    remedy:
      'compare the registration of this client there with identityProvider (clientId, scopes): code flow, web application',
  });
}

function unregistered(
  words: Words,
  callback: string,
  answer: Answer,
  said: string | undefined,
): Finding {
  return words.problem({
    what: `the identity provider refuses the request (${said ? `it says “${said}”` : kindOf(answer)})`,
    why: 'nobody can sign in: most likely this callback is not registered, or the client id is another one',
    remedy: `register ${callback} there as a redirect address, character by character, and check identityProvider.clientId`,
  });
}

/** RFC 6749 section 5.2. A missing secret is legal: then the provider has to know Gatehouse as a public client. */
async function clientFinding(
  provider: IdentityProvider,
  { issuer, clientSecret }: ProviderSettings,
): Promise<Finding> {
  const words = wordsOf('client-secret', issuer);
  const hasSecret = clientSecret !== undefined;
  const { result, said, advice } = await provider.tryClient();
  if (result === 'accepted')
    return words.ok(
      hasSecret
        ? 'the identity provider accepts the client secret'
        : 'the identity provider accepts Gatehouse without a client secret (a public client, PKCE)',
    );
  if (result === 'refused')
    return words.problem({
      what: `the identity provider refuses Gatehouse: ${said}`,
      why: 'nobody can sign in: people read that signing in is not set up correctly',
      remedy: advice,
    });
  if (result === 'unavailable')
    return words.problem({
      what: `the identity provider does not answer requests for tokens as it should: ${said}`,
      why: 'nobody can sign in at present',
      remedy: 'check that the identity provider is up, and reachable from here',
    });
  return words.note({
    what: `the identity provider does not say whether it accepts Gatehouse ${hasSecret ? 'with this client secret' : 'without a client secret'}: it answers ${said} to a code that does not exist`,
    why: 'when it does not, nobody can sign in',
    remedy: hasSecret
      ? 'sign in once; the log of Gatehouse has the error of the provider if it fails'
      : `sign in once; if that fails, ${advice}`,
  });
}
