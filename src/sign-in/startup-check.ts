// Checks at the start of a process where people sign in.
import type { Logger } from 'pino';
import type { IdentityProvider } from '../settings/identity-provider.ts';
import { openIdentityProvider, providerCallback } from './provider.ts';

type StartupCheck = {
  callbackUrl: string;
  logger: Logger;
  /** Nothing is logged after a stop. */
  stopping: AbortSignal;
};

/** Logs one warning for each provider at which nobody can sign in. Skips the embedded provider, which starts with this process. */
export async function checkClients(
  providers: readonly IdentityProvider[],
  { callbackUrl, logger, stopping }: StartupCheck,
): Promise<void> {
  const checked = providers.filter(({ embedded }) => !embedded);
  await Promise.all(
    checked.map(async (settings) => {
      const provider = openIdentityProvider(settings, providerCallback(settings, callbackUrl));
      const { result, response, advice } = await provider.checkClient();
      if (stopping.aborted || result === 'accepted' || result === 'unclear') return;
      const details = { what: settings.issuer, reason: response, remedy: advice };
      if (result === 'refused')
        logger.warn(details, 'the identity provider refuses Gatehouse: nobody can sign in there');
      else logger.warn(details, 'the identity provider is unreachable or sends invalid responses');
    }),
  );
}
