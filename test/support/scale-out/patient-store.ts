// Loaded with `node --import` into processes that compete for the CPU with their own test. No test of an outage uses it.
import { STORE_TIMEOUTS } from '../../../src/store/timeout.ts';

const PATIENCE_MS = 30_000;

Object.assign(STORE_TIMEOUTS, {
  operation: PATIENCE_MS,
  command: PATIENCE_MS,
  open: PATIENCE_MS,
  silence: PATIENCE_MS,
});
