import { type Fault, itSurvives, useFaultySystem } from '../support/faults/redis-faults.ts';

const FAULTS: Fault[] = [
  {
    what: 'is stopped and started again',
    begin: ({ redis }) => redis.stop('SIGTERM'),
    heal: ({ redis }) => redis.start(),
    works: [],
  },
  {
    what: 'is killed and started again',
    begin: ({ redis }) => redis.stop('SIGKILL'),
    heal: ({ redis }) => redis.start(),
    works: [],
  },
  {
    what: 'is frozen',
    begin: ({ redis }) => redis.signal('SIGSTOP'),
    heal: ({ redis }) => redis.signal('SIGCONT'),
    works: [],
  },
];

describe('Clients of a Redis that stops', () => {
  itSurvives(FAULTS, useFaultySystem());
});
