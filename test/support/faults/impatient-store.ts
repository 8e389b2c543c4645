// Imported by a process that cannot open its store: the time that it tries for passes at once.
import { STORE_TIMEOUTS } from '../../../src/store/timeout.ts';

const IMPATIENCE_MS = 500;
const { setTimeout: original } = globalThis;

globalThis.setTimeout = Object.assign(
  (act: () => void, milliseconds?: number) =>
    original(act, milliseconds === STORE_TIMEOUTS.open ? IMPATIENCE_MS : milliseconds),
  original,
);
