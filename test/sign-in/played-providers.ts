// All recorded providers, and the settings file that the document recommends for them.
import { directHosts } from '../support/known-hosts.ts';
import { OPENID_CLIENT } from '../support/openid-provider.ts';
import { type PlayedProvider, playProvider } from './played-provider.ts';
import { RECORDED_PROVIDERS } from './providers/index.ts';
import type { RecordedProvider } from './providers/recorded-provider.ts';
import { recommendedSettings } from './table.ts';

/** Played, at their own addresses, for all tests of the surrounding `describe`. */
export function usePlayedProviders(): (recorded: RecordedProvider) => PlayedProvider {
  let played: PlayedProvider[] = [];
  let endDirecting = async () => {};
  before(async () => {
    played = await Promise.all(RECORDED_PROVIDERS.map(playProvider));
    const ports = played.flatMap(({ hosts, port }) => hosts.map((host) => [host, port] as const));
    endDirecting = directHosts(new Map(ports));
  });
  afterEach(() => {
    for (const provider of played) {
      provider.refuse(undefined);
      provider.play({});
    }
  });
  after(async () => {
    await endDirecting();
    await Promise.all(played.map(({ stop }) => stop()));
  });
  return (recorded) => {
    const found = played.find((each) => each.recorded === recorded);
    if (!found) throw new Error(`${recorded.name} does not run`);
    return found;
  };
}

/** Its id in the settings. */
export function idOf({ name }: RecordedProvider): string {
  return name.toLowerCase().replaceAll(' ', '-');
}

/** The domain whose verified addresses have the level `analytics`. */
export const VERIFIED_DOMAIN = 'verified.example';

/** What the document recommends for each provider, with `recheck`. */
export function recommendedFile() {
  const recommended = RECORDED_PROVIDERS.map((recorded) => ({
    id: idOf(recorded),
    ...recommendedSettings(recorded),
  }));
  return {
    developmentIdp: undefined,
    management: {},
    identityProviders: recommended.map(({ id, identityProvider }) => ({
      ...identityProvider,
      ...OPENID_CLIENT,
      id,
      recheck: '24h',
    })),
    entitlements: recommended.flatMap(({ id, entitlements }) => [
      ...entitlements.map(({ match, level }) => ({ match: { ...match, provider: id }, level })),
      { match: { emailDomain: VERIFIED_DOMAIN, provider: id }, level: 'analytics' },
    ]),
  };
}
