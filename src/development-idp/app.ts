import type Koa from 'koa';
import compose from 'koa-compose';
import type { Logger } from 'pino';
import { createHost } from '../http/host.ts';
import { createEngine, type EngineOptions, loadSigningKey } from './engine.ts';
import { errorResponse } from './error-page.ts';
import { type SignInOptions, signInRoutes } from './sign-in.ts';

export type DevelopmentIdpOptions = Omit<EngineOptions, 'signingKey' | 'now'> &
  SignInOptions & {
    logger: Logger;
    /** Rejects while the process is not ready. */
    isReady: () => Promise<void>;
    /** Seconds since the epoch. */
    now?: () => number;
    production: boolean;
  };

const epochSeconds = () => Math.floor(Date.now() / 1000);

/** An OpenID provider without passwords (OpenID Connect Core 1.0). Throws if `production` is true. */
export async function developmentIdp(options: DevelopmentIdpOptions): Promise<Koa> {
  const { url, pages, logger, isReady, now = epochSeconds } = options;
  if (options.production) {
    throw new Error(
      'the development identity provider has no passwords, so it does not run in production',
    );
  }
  const signingKey = await loadSigningKey(options.store);
  const engine = createEngine({ ...options, signingKey, now });

  const app = createHost({
    name: 'development-idp',
    url,
    proxies: 0,
    logger,
    isReady,
    respondToError: errorResponse(pages),
  });
  app.keys = options.cookieKeys;
  app.use(pages.middleware);
  app.use(signInRoutes(engine, options));
  app.use(compose(engine.middleware));
  return app;
}
