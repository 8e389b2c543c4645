import type Koa from 'koa';
import compose from 'koa-compose';
import { developmentAccount, type DevelopmentPerson } from '../../people/account.ts';
import { entitledLevel } from '../../people/entitlement.ts';
import { createHost } from '../../http/host.ts';
import { cookieSignatures } from '../../keys/cookie-signatures.ts';
import type { Services } from '../../services.ts';
import type { Settings } from '../../settings/settings.ts';
import { createEngine, loadSigningKey } from './engine.ts';
import { errorResponse } from './error-page.ts';
import { signInRoutes } from './sign-in.ts';

export type DevelopmentIdpServices = Pick<
  Services,
  'store' | 'pages' | 'logger' | 'isReady' | 'now'
>;

/**
 * An OpenID provider without passwords (OpenID Connect Core 1.0). `redirectUris` are those of its only client, Gatehouse. Throws in
 * production.
 */
export async function developmentIdp(
  settings: Settings,
  services: DevelopmentIdpServices,
  redirectUris: string[],
): Promise<Koa> {
  const { developmentIdp: idp, production } = settings;
  const { store, pages, logger, isReady, now } = services;
  if (!idp) throw new Error('the settings have no embedded identity provider');
  if (production) {
    throw new Error(
      'the development identity provider has no passwords, so it does not run in production',
    );
  }
  const cookieKeys = cookieSignatures(store.keyRing('development identity provider cookies'));
  const engine = createEngine(settings, idp, {
    redirectUris,
    cookieKeys,
    signingKey: await loadSigningKey(store),
    store,
    pages,
    now,
  });
  const levelOf = (person: DevelopmentPerson) =>
    entitledLevel(settings, developmentAccount(idp.url, person), 'sign-in');

  const app = createHost({
    name: 'development-idp',
    url: idp.url,
    proxies: 0,
    logger,
    isReady,
    respondToError: errorResponse(pages),
    assets: pages.middleware,
  });
  app.keys = cookieKeys;
  app.use(signInRoutes(engine, idp, { pages, levelOf }));
  app.use(compose(engine.middleware));
  return app;
}
