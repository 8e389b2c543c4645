// Settings without rate limits, for load from one address.

const NO_LIMIT = { perAddress: '9999999/1h', inAll: '9999999/1h' };

export const NO_LIMITS = {
  registrations: NO_LIMIT,
  authorizations: NO_LIMIT,
  signIns: NO_LIMIT,
};
