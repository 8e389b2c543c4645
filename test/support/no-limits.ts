// Settings with which people and clients come as often as they like, for loads that make more of them than anybody should from one address.

const NO_LIMIT = { perAddress: '9999999/1h', inAll: '9999999/1h' };

export const NO_LIMITS = {
  registrations: NO_LIMIT,
  authorizations: NO_LIMIT,
  signIns: NO_LIMIT,
};
