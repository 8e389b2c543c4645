// How long the claims about several processes go on: briefly in every run of the tests, long when SOAK is set.
export const SOAK = Boolean(process.env.SOAK);
