// A fault of a deployment: how it is planted, and which checks of the doctor complain of it.
import type { DeploymentOptions } from '../../src/doctor/opened-deployment.ts';
import type { GoodDeployment } from './good-deployment.ts';

export type Planted = (good: GoodDeployment) => unknown;

export type Fault = {
  fault: string;
  plant: Planted;
  /** The checks that complain. */
  found: string[];
  /** In what one of them says. */
  says: RegExp;
  changed?: (good: GoodDeployment) => Partial<DeploymentOptions>;
};
