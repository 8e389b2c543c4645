import type { Services } from '../services.ts';
import type { Settings } from '../settings/settings.ts';

/** What the operations of the API and the console work with. */
export type ManagementContext = {
  settings: Settings;
  services: Services;
  /** The account id of the administrator in the console. Absent with the management key. */
  by?: string;
};
