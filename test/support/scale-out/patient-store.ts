// Loaded with `node --import` into processes that compete for the CPU with their own test. No test of an outage uses it.
import { waitForStore } from './patient-timeouts.ts';

waitForStore();
