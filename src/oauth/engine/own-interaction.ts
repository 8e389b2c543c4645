// Starts interactions that no authorization request of an app began: of a device, and for more access from the account page.
import { randomBytes } from 'node:crypto';
import type Koa from 'koa';
import type Provider from 'oidc-provider';
import { seeOther } from '../../http/see-other.ts';
import { COOKIE } from './configuration.ts';

export type OwnInteraction = {
  /** The path above its uid. */
  folder: string;
  /** The one that the page at that path reads. */
  cookie: 'interaction' | 'resume';
  seconds: number;
  /** Below its path: where it goes on when it has a result. */
  returnPath?: string;
  /** The members of the engine's model. */
  payload: object;
};

/** Saves a new interaction, and redirects to its path with its cookie. */
export async function startOwnInteraction(
  provider: Provider,
  ctx: Koa.Context,
  { folder, cookie, seconds, returnPath = '', payload }: OwnInteraction,
): Promise<void> {
  const uid = randomBytes(16).toString('base64url');
  const path = `${folder}/${uid}`;
  const Interaction = provider.Interaction as unknown as new (
    id: string,
    payload: object,
  ) => InstanceType<Provider['Interaction']>;
  const returnTo = provider.issuer + path + returnPath;
  await new Interaction(uid, { ...payload, returnTo, cid: uid }).save(seconds);
  ctx.cookies.set(provider.cookieName(cookie), uid, { ...COOKIE, path, maxAge: seconds * 1000 });
  seeOther(ctx, path);
}
