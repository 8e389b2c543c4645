// A sign-in at one identity provider, without a server.
import {
  createLoginState,
  type IdentityProvider,
  type LoginState,
} from '../../src/sign-in/provider.ts';
import { HttpError } from '../../src/http/errors.ts';

/** Changes the response of the provider, or the values that it must match. */
export type Change = (query: URLSearchParams, loginState: LoginState) => void;

/** `approve` signs the person in at the provider, and returns the URL of the callback. */
export async function identify(
  provider: IdentityProvider,
  approve: (authorization: URL) => URL,
  change: Change = () => {},
) {
  const loginState = createLoginState('flow-0123456789abcdef');
  const { searchParams } = approve(await provider.authorizationUrl(loginState));
  change(searchParams, loginState);
  return provider.identify(`?${searchParams}`, loginState);
}

/** The error of a sign-in that is refused with a text for a page. */
export async function refusalOf(signIn: Promise<unknown>): Promise<HttpError> {
  const error: unknown = await signIn.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof HttpError))
    throw new Error(`not refused in words for a page: ${String(error)}`);
  return error;
}
