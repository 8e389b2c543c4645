import { type Fault, itSurvives, useFaultySystem } from '../support/faults/redis-faults.ts';
import type { Action } from '../support/faults/redis-proxy.ts';
import { SOAK } from '../support/soak.ts';

const ONE_IN_TEN: Fault = {
  what: 'loses the connection in one command of ten',
  begin: ({ proxy }) => proxy.setRule(cutOneIn(10)),
  heal: ({ proxy }) => proxy.setRule(),
  rounds: 10,
};

const FAULTS: Fault[] = [
  ...(SOAK ? [ONE_IN_TEN] : []),
  {
    what: 'loses the connection in one command of five',
    begin: ({ proxy }) => proxy.setRule(cutOneIn(5)),
    heal: ({ proxy }) => proxy.setRule(),
    rounds: SOAK ? 10 : 5,
  },
  {
    what: 'is slow',
    begin: ({ proxy }) => proxy.delayReplies(SOAK ? 200 : 100),
    heal: ({ proxy }) => proxy.delayReplies(0),
    // Nothing fails, but the end of a sign-in needs fifteen commands, one after another.
    maxMs: 15 * 200 + 1500,
  },
];

/** Alternately in the middle of the command and after its execution. */
function cutOneIn(every: number) {
  let commands = 0;
  return ({ kind }: { kind: string }): Action => {
    if (!kind || ++commands % every !== 0) return 'pass';
    return commands % (2 * every) === 0 ? 'cut' : 'cut reply';
  };
}

describe('Clients of a Redis with a lossy connection', () => {
  itSurvives(FAULTS, useFaultySystem());
});
