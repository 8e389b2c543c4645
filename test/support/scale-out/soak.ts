// Tests of several processes run briefly by default, and long if SOAK is set.
export const SOAK = Boolean(process.env.SOAK);
