// The default levels, lowest first.
import { DEFAULT_LEVELS } from '../../src/permission-levels.ts';

export const LEVELS = ['analytics', 'operations', 'admin', 'full'] as const;

export { DEFAULT_LEVELS };
