// All checks, in the order of the table.
import type { Check } from './check.ts';
import { codeChecks } from './code-checks.ts';
import { tokenChecks } from './token-checks.ts';

export const CHECKS: readonly Check[] = [...codeChecks, ...tokenChecks];
