// Reads settings again in all processes: first each one checks them, then all change. Processes talk through the store's channel.
import { type KeyObject, randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Metrics } from '../observability/metrics.ts';
import { SettingsError } from '../settings/issues.ts';
import type { Settings } from '../settings/settings.ts';
import { KEEP, type Store, StoreUnavailable } from '../store/store.ts';
import {
  areDifferent,
  changedSettings,
  differingSecrets,
  digestOf,
  readAtStart,
  type SettingsDigest,
} from './changes.ts';

/** What the process can do with settings. */
export type ReloadOptions = {
  /** Reads settings and secrets again. Throws SettingsError. */
  read: () => Settings;
  /** The names of secrets that came from environment variables, which a running process cannot read again. */
  secretVariables: () => string[];
  /** Opens hosts for the settings. Throws an error whose message is for the operator. */
  prepare: (settings: Settings) => Promise<Prepared>;
  /** Those in force. */
  current: () => Settings;
  store: Store;
  /** The same in all processes, also while some of them have another root secret. */
  digestKey: KeyObject;
  logger: Logger;
  metrics: Pick<Metrics, 'settings'>;
  /** Seconds since the epoch. */
  now: () => number;
  /** Only tests set these; milliseconds. */
  times?: Partial<ReloadTimes>;
};

export type Prepared = {
  /** Passes new requests to the hosts. */
  commit(): void;
  /** Closes them. */
  discard(): Promise<void>;
};

export type ReloadReport = {
  /** Names of settings, in any process. */
  changed: string[];
  notReloadable: string[];
  /** Names of processes that did not answer. They follow later. */
  unanswered: string[];
};

export type Reloads = {
  /** Throws ReloadRefused; then nothing changed in any process. With `dryRun`, nothing changes either. */
  run(options: { dryRun: boolean }): Promise<ReloadReport>;
  /** The settings that a reload would read now. Throws ReloadRefused. */
  read(): Promise<Settings>;
  /** The names of other processes whose settings differ from those of this one. */
  differing(): string[];
  /** Rejects while this process has not followed the last reload. */
  requireFollowed(): Promise<void>;
  stop(): Promise<void>;
};

/** Names are those of processes or settings. */
export type RefusalKind = 'invalid' | 'restart' | 'busy' | 'secrets' | 'unavailable';

export class ReloadRefused extends Error {
  readonly kind: RefusalKind;
  readonly processes: readonly string[];

  constructor(
    kind: RefusalKind,
    message: string,
    { processes = [], ...options }: ErrorOptions & { processes?: readonly string[] } = {},
  ) {
    super(message, options);
    this.name = 'ReloadRefused';
    this.kind = kind;
    this.processes = processes;
  }
}

export type ReloadTimes = {
  /** For the answers of the other processes. */
  answer: number;
  /** Between two announcements of a process. */
  announce: number;
  /** A process that said nothing for so long has stopped. */
  silence: number;
  /** Between two attempts to read files that change. */
  settle: number;
};

const TIMES: ReloadTimes = { answer: 10_000, announce: 10_000, silence: 25_000, settle: 50 };
const REPEAT_MS = 1000;
const POLL_MS = 20;
/** They are prepared, so it takes milliseconds. */
const APPLY_MS = 4000;
const READ_ATTEMPTS = 20;
const LOCK_SECONDS = 60;
/** Hosts that were prepared, and of which nothing more was heard. */
const PENDING_MS = 60_000;

const MAY_FOLLOW =
  'the store did not answer: the reload takes effect in all processes or in none when it does; then reload again';

/** On which processes talk to each other. */
export const PROCESSES_CHANNEL = 'settings';
const LOCK = 'settings-reload:lock';
const LAST = 'settings-reload:last';
/** The number of the last reload. */
type Last = { number: number };

/** What a process found when it checked its settings. */
type Checked = {
  name: string;
  digest: SettingsDigest;
  changed: string[];
  notReloadable: string[];
  /** The last reload that it took part in. */
  number: number;
  fault?: string;
  /** The store did not answer, which says nothing about the settings. */
  isOutage?: true;
};

/** `who` asks all processes to announce themselves. */
type Message =
  | { type: 'state'; name: string; digest: SettingsDigest; isNew?: boolean }
  | { type: 'gone' }
  | { type: 'who' }
  | { type: 'check'; id: string; isDryRun?: boolean }
  | ({ type: 'checked'; id: string } & Checked)
  | { type: 'cancel'; id: string }
  | { type: 'apply'; id: string; number: number }
  | { type: 'applied'; id: string };

type Other = { name: string; digest: SettingsDigest; heardAt: number };

/** What other processes said of a reload or dry run that this process leads. */
type Lead = { answers: Map<string, Checked>; applied: Set<string>; gone: Set<string> };

export async function openReloads(options: ReloadOptions): Promise<Reloads> {
  const reloads = new ProcessReloads(options);
  await reloads.start();
  return reloads;
}

class ProcessReloads implements Reloads {
  readonly #options: ReloadOptions;
  readonly #times: ReloadTimes;
  readonly #self = randomUUID();
  readonly #name = `${hostname()}:${process.pid}`;
  readonly #others = new Map<string, Other>();
  #digest: SettingsDigest;
  /** The last reload that this process took part in. */
  #number = 0;
  #pending: { id: string; checked: Promise<Checked>; prepared: Prepared | undefined } | undefined;
  #pendingTimer: NodeJS.Timeout | undefined;
  #following: Promise<void> | undefined;
  readonly #leads = new Map<string, Lead>();
  /** Dry runs of the last minute, by id, and the last one: they prepare hosts one after the other. */
  readonly #dryRuns = new Map<string, Promise<Checked>>();
  #lastDryRun: Promise<unknown> = Promise.resolve();
  #unsubscribe: () => void = () => undefined;
  #timer: NodeJS.Timeout | undefined;
  #isStopped = false;
  #reported: string | undefined;

  constructor(options: ReloadOptions) {
    this.#options = options;
    this.#times = { ...TIMES, ...options.times };
    this.#digest = digestOf(options.current(), options.digestKey);
  }

  async start(): Promise<void> {
    const { store, metrics } = this.#options;
    metrics.settings({ digest: this.#digest.settings });
    this.#number = await this.#lastNumber();
    this.#unsubscribe = await store.subscribe(PROCESSES_CHANNEL, (text) => {
      const { from, message }: { from: string; message: Message } = JSON.parse(text);
      if (from !== this.#self) this.#hear(from, message);
    });
    this.#announce(true);
    const follow = () => void this.#follow().catch(() => undefined);
    this.#timer = setInterval(() => {
      this.#announce();
      follow();
    }, this.#times.announce).unref();
    if (this.#number === 0 || !this.#hasChangedSinceStart()) return;
    this.#number -= 1;
    follow();
  }

  /** A reload may have run after this process read its settings, and before it heard of reloads. */
  #hasChangedSinceStart(): boolean {
    const { current, read } = this.#options;
    try {
      const changed = changedSettings(current(), read());
      return changed.length > 0 && readAtStart(changed).length === 0;
    } catch {
      // The next reload says what is wrong.
      return false;
    }
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    clearInterval(this.#timer);
    clearTimeout(this.#pendingTimer);
    this.#unsubscribe();
    await this.#say({ type: 'gone' });
    await Promise.all([this.#discard(), this.#lastDryRun]);
  }

  differing(): string[] {
    return this.#live().flatMap(([, { name, digest }]) =>
      areDifferent(digest, this.#digest) ? [name] : [],
    );
  }

  async requireFollowed(): Promise<void> {
    if ((await this.#lastNumber()) <= this.#number) return;
    void this.#follow().catch(() => undefined);
    throw new Error('this process has not followed the last reload of the settings yet');
  }

  async read({ isDryRun = false } = {}): Promise<Settings> {
    const { current, read } = this.#options;
    const { settle } = this.#times;
    try {
      let settings = read();
      // Later writes belong to the next dry run.
      if (isDryRun && changedSettings(current(), settings).length === 0) return settings;
      for (let attempt = 0; attempt < READ_ATTEMPTS; attempt++) {
        await delay(settle);
        const again = read();
        if (changedSettings(settings, again).length === 0) return again;
        settings = again;
      }
    } catch (error) {
      if (error instanceof SettingsError) throw new ReloadRefused('invalid', error.message);
      throw error;
    }
    const message = 'the settings go on changing while they are read; try again when they do not';
    throw new ReloadRefused('invalid', message);
  }

  async run({ dryRun }: { dryRun: boolean }): Promise<ReloadReport> {
    const { store, metrics, now } = this.#options;
    const id = randomUUID();
    if (dryRun) return this.#lead(id, (lead, expected) => this.#dryRun(id, lead, expected));
    if (!(await store.add(LOCK, id, LOCK_SECONDS)))
      throw new ReloadRefused('busy', 'a reload is in progress; try again in a minute');
    try {
      return await this.#lead(id, (lead, expected) => this.#reload(id, lead, expected));
    } catch (error) {
      metrics.settings({ reload: { at: now(), done: false } });
      await Promise.all([this.#say({ type: 'cancel', id }), this.#discard(id)]);
      throw error;
    } finally {
      await this.#unlock(id);
    }
  }

  /** Tries again while the store cannot be reached. */
  async #unlock(id: string): Promise<void> {
    try {
      // It may be that of another leader, if this one took long.
      const free = (holder: string | undefined) => (holder === id ? undefined : KEEP);
      await this.#options.store.update<string>(LOCK, free);
    } catch {
      if (!this.#isStopped) setTimeout(() => void this.#unlock(id), REPEAT_MS).unref();
    }
  }

  /** `act` gets the other processes, with their names. */
  async #lead<Result>(
    id: string,
    act: (lead: Lead, expected: ReadonlyMap<string, string>) => Promise<Result>,
  ): Promise<Result> {
    const lead: Lead = { answers: new Map(), applied: new Set(), gone: new Set() };
    this.#leads.set(id, lead);
    try {
      return await act(lead, new Map(this.#live().map(([from, { name }]) => [from, name])));
    } finally {
      this.#leads.delete(id);
    }
  }

  /** Needs no lock: it disturbs no reload, and none disturbs it. */
  async #dryRun(
    id: string,
    lead: Lead,
    expected: ReadonlyMap<string, string>,
  ): Promise<ReloadReport> {
    const message = { type: 'check', id, isDryRun: true } as const;
    const all = await this.#checks(message, this.#checkOnly(id), lead, expected);
    return reportOf(all, leftOf(lead, expected, lead.answers));
  }

  async #reload(
    id: string,
    lead: Lead,
    expected: ReadonlyMap<string, string>,
  ): Promise<ReloadReport> {
    const all = await this.#checks({ type: 'check', id }, this.#check(id), lead, expected);
    if (this.#isStopped) throw new ReloadRefused('busy', 'this process is stopping; try again');
    const number = await this.#nextNumber(Math.max(...all.map((each) => each.number)));
    await this.#say({ type: 'apply', id, number });
    await this.#apply(id, number);
    const following = new Map([...expected].filter(([from]) => lead.answers.has(from)));
    const isApplied = () => leftOf(lead, following, lead.applied).length === 0;
    await this.#repeat({ type: 'apply', id, number }, isApplied, APPLY_MS);
    return reportOf(all, leftOf(lead, expected, lead.applied));
  }

  /** What this process and the others found. Throws ReloadRefused if one of them cannot reload. */
  async #checks(
    message: Message,
    checking: Promise<Checked>,
    lead: Lead,
    expected: ReadonlyMap<string, string>,
  ): Promise<Checked[]> {
    void this.#say(message);
    const own = await checking;
    const found = () => [own, ...lead.answers.values()];
    const hasFault = () => found().some(({ fault }) => fault !== undefined);
    const isAnswered = () => leftOf(lead, expected, lead.answers).length === 0;
    await this.#repeat(message, () => hasFault() || isAnswered());
    const refusal = refusalOf(found(), { isAlone: expected.size + lead.answers.size === 0 });
    if (refusal) throw refusal;
    return found();
  }

  /**
   * Once it is stored, every process follows. Where the store does not answer, nobody knows whether it is, so this is repeated: with another
   * number, they follow too.
   */
  async #nextNumber(seen: number): Promise<number> {
    const { store } = this.#options;
    const until = performance.now() + this.#times.answer;
    for (;;)
      try {
        // The store may have lost its latest writes.
        const after = await store.update<Last>(LAST, (last) => ({
          value: { number: Math.max(last?.number ?? 0, seen) + 1 },
          ttl: Infinity,
        }));
        return after?.value.number ?? seen + 1;
      } catch (error) {
        if (!(error instanceof StoreUnavailable)) throw error;
        if (performance.now() > until || this.#isStopped)
          throw new ReloadRefused('unavailable', MAY_FOLLOW, { cause: error });
        await delay(REPEAT_MS);
      }
  }

  /** Says it again, because messages may be lost, until `isDone` or the time for answers is over. */
  async #repeat(message: Message, isDone: () => boolean, longest = Infinity): Promise<void> {
    const started = performance.now();
    const limit = Math.min(this.#times.answer, longest);
    let said = started;
    while (!isDone() && performance.now() - started < limit) {
      await delay(POLL_MS);
      if (performance.now() - said < REPEAT_MS) continue;
      said = performance.now();
      void this.#say(message);
    }
  }

  /** Reads the settings and prepares for them, once for each reload. */
  #check(id: string): Promise<Checked> {
    if (this.#pending?.id === id) return this.#pending.checked;
    const before = this.#discard();
    const pending = {
      id,
      prepared: undefined as Prepared | undefined,
      checked: undefined as never,
    };
    const checked = before.then(() => this.#prepare(pending));
    this.#pending = Object.assign(pending, { checked });
    clearTimeout(this.#pendingTimer);
    this.#pendingTimer = setTimeout(() => void this.#discard(), PENDING_MS).unref();
    return checked;
  }

  /** As `check`, without hosts that wait for the reload. */
  #checkOnly(id: string): Promise<Checked> {
    const known = this.#dryRuns.get(id);
    if (known) return known;
    const checked = this.#lastDryRun.then(async () => {
      const opened = { prepared: undefined as Prepared | undefined };
      const found = await this.#prepare(opened, { isDryRun: true });
      await this.#close(opened.prepared);
      return found;
    });
    this.#lastDryRun = checked;
    this.#dryRuns.set(id, checked);
    setTimeout(() => this.#dryRuns.delete(id), PENDING_MS).unref();
    return checked;
  }

  async #prepare(
    pending: { prepared: Prepared | undefined },
    { isDryRun = false } = {},
  ): Promise<Checked> {
    const { current, prepare, secretVariables, digestKey } = this.#options;
    const name = this.#name;
    const none = {
      name,
      digest: this.#digest,
      changed: [],
      notReloadable: [],
      number: this.#number,
    };
    try {
      const settings = await this.read({ isDryRun });
      const changed = changedSettings(current(), settings);
      const found = {
        ...none,
        digest: digestOf(settings, digestKey),
        changed,
        notReloadable: secretVariables(),
      };
      if (readAtStart(changed).length > 0) return found;
      pending.prepared = await prepare(settings);
      return found;
    } catch (error) {
      const fault = error instanceof Error ? error.message : String(error);
      return { ...none, fault, ...(error instanceof StoreUnavailable ? { isOutage: true } : {}) };
    }
  }

  /** Whether this process has the settings of the reload now. */
  async #apply(id: string, number: number): Promise<boolean> {
    const pending = this.#pending?.id === id ? this.#pending : undefined;
    await pending?.checked;
    if (pending?.prepared && this.#pending === pending) {
      this.#pending = undefined;
      this.#commit(pending.prepared, number);
    } else if (number > this.#number) await this.#follow();
    return number <= this.#number;
  }

  #commit(prepared: Prepared, number: number): void {
    const { metrics, now, current, digestKey } = this.#options;
    prepared.commit();
    this.#number = number;
    this.#digest = digestOf(current(), digestKey);
    metrics.settings({ digest: this.#digest.settings, reload: { at: now(), done: true } });
    this.#announce();
  }

  /** Only the hosts of this reload, or any. */
  async #discard(id = this.#pending?.id): Promise<void> {
    const pending = this.#pending;
    if (!pending || pending.id !== id) return;
    this.#pending = undefined;
    await pending.checked;
    await this.#close(pending.prepared);
  }

  async #close(prepared: Prepared | undefined): Promise<void> {
    try {
      await prepared?.discard();
    } catch (error) {
      const { logger } = this.#options;
      logger.warn({ err: error }, 'hosts that were prepared for a reload did not close');
    }
  }

  async #lastNumber(): Promise<number> {
    return (await this.#options.store.get<Last>(LAST))?.value.number ?? 0;
  }

  /** Catches up with reloads that this process missed. */
  #follow(): Promise<void> {
    this.#following ??= this.#catchUp().finally(() => (this.#following = undefined));
    return this.#following;
  }

  async #catchUp(): Promise<void> {
    const { logger } = this.#options;
    const number = await this.#lastNumber();
    if (number <= this.#number || this.#isStopped) return;
    const id = `follow ${number}`;
    const checked = await this.#check(id);
    // Another reload took its place, or the process stops.
    if (this.#pending?.id !== id) return;
    const { prepared } = this.#pending;
    if (!prepared) {
      const atStart = readAtStart(checked.changed);
      const reason = checked.fault ?? `${atStart.join(', ')} changed, which needs a restart`;
      if (reason !== this.#reported)
        logger.error({ reason }, 'this process cannot follow the last reload of the settings');
      this.#reported = reason;
      return this.#discard();
    }
    this.#pending = undefined;
    this.#reported = undefined;
    this.#commit(prepared, number);
    logger.info({ changed: checked.changed }, 'followed a reload of the settings');
  }

  #live(): [string, Other][] {
    for (const [from, { heardAt }] of this.#others)
      if (performance.now() - heardAt > this.#times.silence) this.#others.delete(from);
    return [...this.#others];
  }

  #announce(isNew = false): void {
    const state = { type: 'state', name: this.#name, digest: this.#digest } as const;
    void this.#say(isNew ? { ...state, isNew } : state);
  }

  async #say(message: Message): Promise<void> {
    await this.#options.store
      .publish(PROCESSES_CHANNEL, JSON.stringify({ from: this.#self, message }))
      .catch(() => undefined);
  }

  #hear(from: string, message: Message): void {
    switch (message.type) {
      case 'state': {
        const { name, digest } = message;
        this.#others.set(from, { name, digest, heardAt: performance.now() });
        if (message.isNew) this.#announce();
        break;
      }
      case 'who':
        this.#announce();
        break;
      case 'gone':
        this.#others.delete(from);
        for (const { gone } of this.#leads.values()) gone.add(from);
        break;
      case 'check':
        void (message.isDryRun ? this.#checkOnly(message.id) : this.#check(message.id)).then(
          (checked) => this.#say({ type: 'checked', id: message.id, ...checked }),
        );
        break;
      case 'checked':
        this.#leads.get(message.id)?.answers.set(from, message);
        break;
      case 'cancel':
        void this.#discard(message.id);
        break;
      case 'apply':
        void this.#apply(message.id, message.number)
          .then((isDone) => (isDone ? this.#say({ type: 'applied', id: message.id }) : undefined))
          .catch(() => undefined);
        break;
      case 'applied':
        this.#leads.get(message.id)?.applied.add(from);
        break;
    }
  }
}

/** The names of those that are not among the answers, and have not stopped. */
function leftOf(
  { gone }: Lead,
  expected: ReadonlyMap<string, string>,
  answered: { has(from: string): boolean },
): string[] {
  return [...expected]
    .flatMap(([from, name]) => (answered.has(from) || gone.has(from) ? [] : [name]))
    .sort();
}

/** Names the process with the fault, unless it is the only one. */
function refusalOf(
  all: readonly Checked[],
  { isAlone }: { isAlone: boolean },
): ReloadRefused | undefined {
  const faulty = all.find(({ fault }) => fault !== undefined);
  if (faulty?.fault !== undefined) {
    const kind = faulty.isOutage ? 'unavailable' : 'invalid';
    if (isAlone) return new ReloadRefused(kind, faulty.fault);
    return new ReloadRefused(kind, `${faulty.name}: ${faulty.fault}`, { processes: [faulty.name] });
  }
  const atStart = readAtStart(changedIn(all));
  if (atStart.length > 0)
    return new ReloadRefused(
      'restart',
      `these settings are read at the start only, so restart the processes: ${atStart.join(', ')}`,
    );
  const differing = differingSecrets(all.map(({ digest }) => digest));
  if (differing.length === 0) return undefined;
  const processes = all.map(({ name }) => name);
  const message = `the processes see different contents of ${differing.join(', ')}; try again when the files are the same everywhere`;
  return new ReloadRefused('secrets', message, { processes });
}

function changedIn(all: readonly Checked[]): string[] {
  return [...new Set(all.flatMap(({ changed }) => changed))].sort();
}

function reportOf(all: readonly Checked[], unanswered: string[]): ReloadReport {
  const notReloadable = [...new Set(all.flatMap((one) => one.notReloadable))].sort();
  return { changed: changedIn(all), notReloadable, unanswered };
}
