// Makes connectors, machines and rules of apps equal to a file, and writes such a file.
import { asHttpError, HttpError } from '../../http/errors.ts';
import { MAX_RULES } from '../../clients/rules.ts';
import { listConnectors } from '../../links/connectors.ts';
import type { Handlers, ManagementContext } from '../context.ts';
import { affectedResources } from '../resources/affected.ts';
import {
  type Applied,
  type applyOperations,
  type Kind,
  KINDS,
  type Result,
} from '../resources/apply.ts';
import { activeConnectors, endConnectors, exportConnectors, planConnectors } from './connectors.ts';
import { acquireLock, type Lock } from '../../store/lock.ts';
import { type Changes, happened, type Lost, lostConnections } from './losses.ts';
import { endMachines, exportMachines, findMachines, planMachines } from './machines.ts';
import { boundedIssues } from '../parse-input.ts';
import { parseFile } from './parse-file.ts';
import { collectIssues, invalid, type PlannedConnector, type Step } from './plan.ts';
import { endRules, exportRules, findRules, nameBlocks, planRules } from './rules.ts';

/** One file is applied at a time, in all processes. */
const LOCK = 'apply:lock';

export const applyHandlers: Handlers<keyof typeof applyOperations> = {
  async applyFile(management, { query, body }) {
    if (query.dryRun === 'true') {
      const plan = await makePlan(management, body, query);
      return response(allSteps(plan), plan.affected);
    }
    const lock = await acquireLock(management.services.store, LOCK);
    if (!lock) throw inProgress();
    try {
      const plan = await makePlan(management, body, query);
      const steps = await run(management, plan, lock);
      return response(steps, await happened(management, plan.affected, plan.changes));
    } finally {
      await lock.release();
    }
  },

  async exportFile(management) {
    const { connectors, machines, rules } = await readAll(management);
    const active = activeConnectors(management, connectors);
    const keys = new Map(active.map(({ id, key = id }) => [id, key]));
    return {
      connectors: exportConnectors(active).toSorted(byKey),
      machines: exportMachines(machines, (id) => keys.get(id)).toSorted(byKey),
      clientRules: exportRules(rules).toSorted(byKey),
    };
  },
};

const byKey = (one: { key: string }, other: { key: string }) => (one.key < other.key ? -1 : 1);

async function readAll(management: ManagementContext) {
  const [connectors, machines, rules] = await Promise.all([
    listConnectors(management.services.store),
    findMachines(management),
    findRules(management),
  ]);
  return { connectors, machines, rules };
}

type Steps = Record<Kind, Step[]>;
type Plan = {
  steps: Steps;
  endings: Steps;
  changes: Changes;
  affected: Lost;
  finishRules: (ids: ReadonlySet<string>) => Promise<void>;
};
type Options = { prune?: 'true' | 'all' | undefined; pruneLimit?: number | undefined };

/** Throws HttpError 400 that names all problems of the file, and 409 if too much would end. Changes nothing. */
async function makePlan(
  management: ManagementContext,
  body: unknown,
  options: Options,
): Promise<Plan> {
  const { prune, pruneLimit } = options;
  if (pruneLimit !== undefined && prune === undefined) throw invalid('pruneLimit: only with prune');
  const issues = collectIssues();
  const file = await parseFile(body, issues);
  const stored = await readAll(management);
  const active = activeConnectors(management, stored.connectors);
  const connectors = await planConnectors(
    management,
    file.connectors ?? [],
    stored.connectors,
    issues,
  );
  const isPruned = <Item extends { key?: string | undefined }>(
    kind: Kind,
    absent: readonly Item[],
  ) =>
    prune === undefined || !file[kind]
      ? []
      : absent.filter(({ key }) => prune === 'all' || key !== undefined);
  const ended = { connectors: isPruned('connectors', connectors.absent) };
  const connectorOf = (key: string): PlannedConnector | 'invalid' | undefined => {
    const isEnded = ended.connectors.some(({ id, key: own = id }) => own === key);
    if (isEnded) return undefined;
    const planned = connectors.planned.get(key);
    if (planned) return planned;
    // One that was found valid and is not planned expired as the file says.
    const isValid = connectors.steps.some((step) => step.key === key);
    if (file.connectorKeys.has(key) && !isValid) return 'invalid';
    return active.find(({ id, key: own = id }) => own === key);
  };
  const machines = await planMachines(
    management,
    file.machines ?? [],
    stored.machines,
    { connectorOf, isBlocked: nameBlocks([...stored.rules, ...(file.clientRules ?? [])]) },
    issues,
  );
  const rules = await planRules(management, file.clientRules ?? [], stored.rules, issues);
  const added = rules.steps.filter(({ action }) => action === 'created').length;
  if (added > 0 && stored.rules.length + added > MAX_RULES)
    issues.add(
      'clientRules',
      `there are ${stored.rules.length} rules and ${added} new ones, at most ${MAX_RULES} together, before others end: remove some first`,
    );
  if (issues.found.length > 0) throw refusal(issues.found);
  const pruned = {
    ...ended,
    machines: isPruned('machines', machines.absent),
    rules: isPruned('clientRules', rules.absent),
  };
  requireLimit(pruneLimit, {
    connectors: [pruned.connectors.length, active.length],
    machines: [pruned.machines.length, stored.machines.length],
    clientRules: [pruned.rules.length, stored.rules.length],
  });
  const changes = {
    connectors: [
      ...connectors.changes,
      ...pruned.connectors.map((before) => {
        return { before, after: { ...before, revokedAt: management.services.now() } };
      }),
    ],
    revoked: pruned.machines,
    replaced: machines.replaced,
    shortened: machines.shortened,
    narrowed: machines.narrowed,
    blocks: rules.blocks,
  };
  return {
    steps: { connectors: connectors.steps, machines: machines.steps, clientRules: rules.steps },
    endings: {
      connectors: endConnectors(management, pruned.connectors),
      machines: endMachines(management, pruned.machines),
      clientRules: endRules(management, pruned.rules),
    },
    changes,
    affected: await lostConnections(management, changes),
    finishRules: rules.finish,
  };
}

function refusal(found: readonly string[]): HttpError {
  const issues = boundedIssues(found, (issue) => issue);
  return new HttpError(400, 'invalid_file', issues.join('; '), { members: { issues } });
}

/** A kind that has more than this many records does not lose more than half of them by mistake. */
const MIN_GUARDED = 2;

/** The numbers of records that would end, and that there are. Throws HttpError 409. */
function requireLimit(
  limit: number | undefined,
  counts: Record<Kind, readonly [ending: number, all: number]>,
): void {
  const ending = KINDS.reduce((sum, kind) => sum + counts[kind][0], 0);
  if (limit !== undefined && ending <= limit) return;
  if (limit !== undefined)
    throw tooManyEndings(`${ending} records would end, and the limit is ${limit}`);
  const guarded = KINDS.filter((kind) => {
    const [count, all] = counts[kind];
    return all > MIN_GUARDED && count * 2 > all;
  });
  if (guarded.length === 0) return;
  const texts = guarded.map((kind) => `${counts[kind][0]} of ${counts[kind][1]} ${kind}`);
  throw tooManyEndings(`${texts.join(' and ')} would end: to allow it, give the limit ${ending}`);
}

function tooManyEndings(message: string): HttpError {
  return new HttpError(409, 'too_many_endings', message);
}

function allSteps({ steps, endings }: Plan): Steps {
  return {
    connectors: [...steps.connectors, ...endings.connectors],
    machines: [...steps.machines, ...endings.machines],
    clientRules: [...steps.clientRules, ...endings.clientRules],
  };
}

const CHANGED_MEANWHILE =
  'somebody changed this meanwhile: see in a dry run what the file would change now, then apply it again';

/** Failures are part of the result, and do not stop the other records. */
async function run(
  { services: { logger } }: ManagementContext,
  { steps, endings, finishRules }: Plan,
  lock: Lock,
): Promise<Steps> {
  const failed = (step: Step, error: unknown): Step => {
    const { code, message, status } = asHttpError(error);
    if (status >= 500) logger.error({ err: error }, 'a record of the file could not be applied');
    return {
      ...step,
      action: 'failed',
      error: code,
      error_description: status === 412 ? CHANGED_MEANWHILE : message,
    };
  };
  const runSteps = async (each: readonly Step[]): Promise<Step[]> => {
    const done: Step[] = [];
    for (const { run: act, ...step } of each) {
      try {
        if (act && !lock.isHeld()) throw inProgress();
        const id = await act?.();
        done.push(id === undefined ? step : { ...step, id });
      } catch (error) {
        done.push(failed(step, error));
      }
    }
    return done;
  };
  const connectors = await runSteps(steps.connectors);
  const machines = await runSteps(steps.machines);
  let rules = await runSteps(steps.clientRules);
  const isDone = ({ action }: Step) => action !== 'unchanged' && action !== 'failed';
  try {
    await finishRules(new Set(rules.filter(isDone).flatMap(({ id }) => id ?? [])));
  } catch (error) {
    rules = rules.map((step) => (isDone(step) ? failed(step, error) : step));
  }
  // What ends may have been replaced by what failed.
  const hasFailed = [...connectors, ...machines, ...rules].some(isFailed);
  const runEndings = (each: readonly Step[]) =>
    hasFailed
      ? each.map(({ run: _run, ...step }): Step => failed(step, notEnded()))
      : runSteps(each);
  const endedRules = await runEndings(endings.clientRules);
  const endedMachines = await runEndings(endings.machines);
  const endedConnectors = await runEndings(endings.connectors);
  return {
    connectors: [...connectors, ...endedConnectors],
    machines: [...machines, ...endedMachines],
    clientRules: [...rules, ...endedRules],
  };
}

function isFailed({ action }: Step): boolean {
  return action === 'failed';
}

function notEnded(): HttpError {
  const message = 'not ended, because other records failed: apply the file again';
  return new HttpError(409, 'changed_meanwhile', message);
}

function response(steps: Steps, affected: Lost): Applied {
  const shown = (each: readonly Step[]) => each.map(({ run: _run, ...result }): Result => result);
  return {
    connectors: shown(steps.connectors),
    machines: shown(steps.machines),
    clientRules: shown(steps.clientRules),
    ...affectedResources(affected),
  };
}

function inProgress(): HttpError {
  return new HttpError(
    409,
    'apply_in_progress',
    'another file is being applied: try again when it is done',
  );
}
