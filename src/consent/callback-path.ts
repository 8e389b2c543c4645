/** The redirect URI at the identity provider, also for the account page. */
export const CALLBACK_PATH = '/interaction/callback';
