import { openDataset } from '../../../src/development/sample/dataset.ts';
import { meetsDeadline } from '../../support/deadlines.ts';

describe('The cost of the sample data set', () => {
  it('the data set takes less than 300 ms to build', async () => {
    await meetsDeadline('sampleDataset', async () => openDataset().close());
  });
});
