import type { DeploymentOptions } from '../../src/doctor/deployment.ts';
import type { GoodDeployment } from './good-deployment.ts';

/** A fault of a deployment, and how doctor reports it. */
export type Fault = {
  fault: string;
  inject: (good: GoodDeployment) => unknown;
  /** The checks that report it, sorted. */
  found: string[];
  /** Matches the report. */
  says: RegExp;
  changed?: (good: GoodDeployment) => Partial<DeploymentOptions>;
};
