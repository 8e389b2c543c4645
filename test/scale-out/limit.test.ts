// The limit of a connect link over three processes that are killed and started again.
import { useProcesses } from '../support/scale-out/processes.ts';
import { limitIsExact } from './limit.ts';

describe('Over three processes that come and go', () => {
  const processes = useProcesses(() => ({ store: 'redis' }));

  limitIsExact(processes);
});
