// Imported by a process that cannot open its store: it gives up early.
import { STORE_TIMEOUTS } from '../../../src/store/timeout.ts';

STORE_TIMEOUTS.open = 500;
