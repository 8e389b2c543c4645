// Loaded with `node --import` into processes of tests of outages that compete for the CPU with their own test.
import { multiplyStoreTimeouts } from './patient-timeouts.ts';

multiplyStoreTimeouts(2);
