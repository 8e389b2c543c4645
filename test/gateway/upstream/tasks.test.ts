import { randomUUID } from 'node:crypto';
import { expect } from 'chai';
import { addressOf, mint } from '../../links/minted-tokens/minting.ts';
import { readAudit } from '../../support/management-api.ts';
import { connect } from '../../support/connection.ts';
import { createDeployment, startDeployment } from '../../support/system.ts';
import { call } from '../../support/mcp.ts';
import type { UpstreamHandler } from '../../support/upstream/upstream-server.ts';
import {
  echo,
  event,
  json,
  resultFor,
  startScriptedUpstream,
  stream,
  toolCall,
} from '../../support/upstream/scripted-upstream.ts';
import { connectPerson, useUpstream } from '../../support/upstream/system.ts';
import { restartSystem } from '../../support/restart.ts';

const RELATED = 'io.modelcontextprotocol/related-task';
const NOT_FOUND = -32_602;

type Message = { id?: unknown; method?: string; params?: Record<string, unknown> };
type Holder = { link: string; token: string };

const ask = (method: string, params: object = {}, id: unknown = 1) => ({
  jsonrpc: '2.0',
  id,
  method,
  params,
});

/** An upstream that returns every task to any caller who names it, and lists all of them. */
function openCarelessServer(): UpstreamHandler {
  const tasks: string[] = [];
  const stateOf = (taskId: unknown) => ({ taskId, status: 'completed', ttl: 60_000 });
  return (req, res, body, caller) => {
    const message = body as Message;
    const { method, params = {} } = message;
    const { taskId } = params;
    if (method === 'tools/call') {
      const id = randomUUID();
      tasks.push(id);
      const isModern = req.headers['mcp-protocol-version'] === '2026-07-28';
      const task = { ...stateOf(id), status: 'working' };
      return json(res, resultFor(message, isModern ? { ...task, resultType: 'task' } : { task }));
    }
    if (method === 'tasks/list')
      return json(res, resultFor(message, { tasks: tasks.map(stateOf) }));
    if (method === 'tasks/result') {
      const result = { content: [], structuredContent: { secret: taskId } };
      return json(res, resultFor(message, { ...result, _meta: { [RELATED]: { taskId } } }));
    }
    if (method?.startsWith('tasks/')) return json(res, resultFor(message, stateOf(taskId)));
    return echo(req, res, body, caller);
  };
}

describe('Upstream tasks', () => {
  const behind = useUpstream(startScriptedUpstream, { settings: { defaultLevel: 'analytics' } });
  beforeEach(() => behind().upstream.respondWith(openCarelessServer()));

  const sent = () => behind().upstream.received.length;

  async function create({ link, token }: Holder, tool = 'whoami', headers = {}): Promise<string> {
    const { text } = await call(link, token, toolCall(tool), { headers });
    const { result } = JSON.parse(text);
    return result.task?.taskId ?? result.taskId;
  }

  const modern = (tool: string) => ({
    'mcp-protocol-version': '2026-07-28',
    'mcp-method': 'tools/call',
    'mcp-name': tool,
  });

  /** Every method that takes a task id. */
  const METHODS = ['tasks/get', 'tasks/result', 'tasks/cancel', 'tasks/update', 'tasks/anything'];

  async function expectNothing({ link, token }: Holder, taskId: string): Promise<void> {
    const before = sent();
    for (const method of METHODS) {
      const { status, rpc } = await call(link, token, ask(method, { taskId }));
      expect([status, rpc?.error?.code], method).to.deep.equal([200, NOT_FOUND]);
    }
    const listen = ask('subscriptions/listen', { notifications: { taskIds: [taskId] } });
    expect((await call(link, token, listen)).rpc?.error?.code).to.equal(NOT_FOUND);
    const related = ask('tools/call', { name: 'whoami', _meta: { [RELATED]: { taskId } } });
    expect((await call(link, token, related)).rpc?.error?.code).to.equal(NOT_FOUND);
    expect(sent()).to.equal(before);
  }

  async function listed({ link, token }: Holder): Promise<string[]> {
    const { text } = await call(link, token, ask('tasks/list'));
    return JSON.parse(text).result.tasks.map(({ taskId }: { taskId: string }) => taskId);
  }

  for (const [revision, headersFor] of [
    ['2025-11-25', () => ({})],
    ['2026-07-28', modern],
  ] as const) {
    it(`UPS-01 a task works for the caller who created it, in revision ${revision}`, async () => {
      const owner = await behind().connected('operations');
      const taskId = await create(owner, 'whoami', headersFor('whoami'));
      for (const method of METHODS) {
        const { rpc } = await call(owner.link, owner.token, ask(method, { taskId }));
        expect(rpc?.result, method).to.be.an('object');
        expect(behind().upstream.received.at(-1)?.body).to.nested.include({
          'params.taskId': taskId,
        });
      }
      const listen = ask('subscriptions/listen', { notifications: { taskIds: [taskId] } });
      expect((await call(owner.link, owner.token, listen)).rpc?.result).to.be.an('object');
    });
  }

  it('UPS-01 a task of either revision is not found for another person, client, link or minted token', async () => {
    const { system } = behind();
    const owner = await connectPerson(system, 'full');
    const { connector, connection } = owner;
    const otherPerson = await connect(system, connector, {
      person: 'grace',
      as: { client: connection.client },
    });
    const otherClient = await connect(system, connector, { as: { browser: connection.browser } });
    const otherLink = await connectPerson(system, 'full');
    const minted = await mint(system, { level: 'full' });
    for (const headers of [{}, modern('cards')]) {
      const taskId = await create(owner, 'cards', headers);
      await expectNothing({ link: owner.link, token: otherPerson.accessToken }, taskId);
      await expectNothing({ link: owner.link, token: otherClient.accessToken }, taskId);
      await expectNothing(otherLink, taskId);
      await expectNothing({ link: addressOf(system), token: minted.token }, taskId);
    }
  });

  it('UPS-01 a task is not found below the level it was created at, and is found at a higher one', async () => {
    const { system } = behind();
    const { connector, connection, token } = await connectPerson(system, 'full');
    const lower = await connect(system, connector, { level: 'operations', as: connection });
    const high = { link: connector.link, token };
    const low = { link: connector.link, token: lower.accessToken };
    const [highTask, lowTask] = [await create(high), await create(low)];
    await expectNothing(low, highTask);
    expect(await listed(low)).to.deep.equal([lowTask]);
    for (const taskId of [highTask, lowTask])
      expect(
        (await call(high.link, high.token, ask('tasks/get', { taskId }))).rpc?.result,
      ).to.be.an('object');
  });

  it('UPS-01 a task whose id is issued again keeps its highest level', async () => {
    const { system, upstream } = behind();
    upstream.respondWith((_req, res, body) =>
      json(res, resultFor(body as Message, { task: { taskId: 'same', status: 'working' } })),
    );
    const { connector, connection, token } = await connectPerson(system, 'full');
    const lower = await connect(system, connector, { level: 'operations', as: connection });
    const low = { link: connector.link, token: lower.accessToken };
    await create(low);
    await create({ link: connector.link, token });
    await create(low);
    await expectNothing(low, 'same');
  });

  it('tasks/result, which revision 2026-07-28 removed, returns -32601 with and without Mcp-Name', async () => {
    const { link, token } = await behind().connected('analytics');
    const own = await create({ link, token }, 'whoami', modern('whoami'));
    const before = sent();
    for (const taskId of [own, 'unknown'])
      for (const name of [[], [['mcp-name', taskId]]]) {
        const headers = {
          'mcp-protocol-version': '2026-07-28',
          'mcp-method': 'tasks/result',
          ...Object.fromEntries(name),
        };
        const answer = await call(link, token, ask('tasks/result', { taskId }), { headers });
        expect([answer.status, answer.rpc?.error?.code]).to.deep.equal([404, -32_601]);
        expect(answer.text).to.include('tasks/get');
      }
    expect(sent()).to.equal(before);
  });

  it('UPS-01 task methods require no level of their own, and a malformed id finds nothing', async () => {
    const { link, token } = await behind().connected('analytics');
    const own = await create({ link, token });
    const before = sent();
    for (const taskId of [undefined, null, 7, [own], '', `${own} `])
      for (const method of METHODS)
        expect((await call(link, token, ask(method, { taskId }))).rpc?.error?.code).to.equal(
          NOT_FOUND,
        );
    expect(sent()).to.equal(before);
    expect((await call(link, token, ask('tasks/list'))).rpc?.result).to.be.an('object');
  });

  it('UPS-01 a task of another caller blocks the whole batch', async () => {
    const owner = await connectPerson(behind().system, 'operations');
    const taskId = await create(owner);
    const other = await behind().connected('operations');
    const before = sent();
    const batch = [toolCall('whoami', 'a'), ask('tasks/result', { taskId }, 'b')];
    const { text } = await call(other.link, other.token, batch);
    const [first, second] = JSON.parse(text);
    expect(first).to.deep.include({ id: 'a' }).and.have.property('error');
    expect(second).to.deep.include({ id: 'b' }).and.nested.include({ 'error.code': NOT_FOUND });
    expect(sent()).to.equal(before);
  });

  it('UPS-01 as many tasks as fit into a request are not found if they are not its caller’s', async () => {
    const { link, token } = await behind().connected('operations');
    const taskIds = Array.from({ length: 150_000 }, () => 1);
    const listen = ask('subscriptions/listen', { notifications: { taskIds } });
    const { status, rpc } = await call(link, token, listen);
    expect([status, rpc?.error?.code]).to.deep.equal([200, NOT_FOUND]);
  });

  it('UPS-01 without the tasks extension in the request, a foreign and an unknown task get the same -32021, and an own task reaches the server', async () => {
    const owner = await connectPerson(behind().system, 'operations');
    const other = await behind().connected('operations');
    const own = await create(owner, 'whoami', modern('whoami'));
    const askModern = (holder: Holder, method: string, taskId: string, extensions: object) => {
      const capabilities = { 'io.modelcontextprotocol/clientCapabilities': { extensions } };
      const _meta = { 'io.modelcontextprotocol/protocolVersion': '2026-07-28', ...capabilities };
      const { 'mcp-name': name, ...others } = { ...modern(taskId), 'mcp-method': method };
      const isListening = method === 'subscriptions/listen';
      const headers = isListening ? others : { ...others, 'mcp-name': name };
      const params = isListening ? { notifications: { taskIds: [taskId] } } : { taskId };
      return call(holder.link, holder.token, ask(method, { ...params, _meta }), { headers });
    };
    const before = sent();
    for (const method of ['tasks/get', 'tasks/update', 'tasks/cancel', 'subscriptions/listen']) {
      const [foreign, unknown] = [
        await askModern(other, method, own, {}),
        await askModern(other, method, randomUUID(), {}),
      ];
      expect(foreign.text).to.equal(unknown.text);
      expect([foreign.status, unknown.status]).to.deep.equal([400, 400]);
      expect(foreign.rpc?.error).to.deep.include({
        code: -32_021,
        data: { requiredCapabilities: { extensions: { 'io.modelcontextprotocol/tasks': {} } } },
      });
      const declared = await askModern(other, method, own, { 'io.modelcontextprotocol/tasks': {} });
      expect([declared.status, declared.rpc?.error?.code]).to.deep.equal([200, NOT_FOUND]);
    }
    expect(sent()).to.equal(before);
    expect((await askModern(owner, 'tasks/get', own, {})).rpc?.result).to.be.an('object');
  });

  it("UPS-02 tasks/list has only the caller's tasks", async () => {
    const [one, two] = [
      await connectPerson(behind().system, 'full'),
      await connectPerson(behind().system, 'operations'),
    ];
    const first = await create(one, 'cards');
    const second = await create(two);
    const third = await create(one);
    expect(await listed(one)).to.deep.equal([first, third]);
    expect(await listed(two)).to.deep.equal([second]);
    expect(await listed(await behind().connected('analytics'))).to.deep.equal([]);
  });

  it("UPS-02 tasks/list has only the caller's tasks in a stream and in a batch too", async () => {
    const { link, token } = await connectPerson(behind().system, 'full');
    const own = await create({ link, token });
    const tasks = [own, 'foreign'].map((taskId) => ({ taskId, status: 'working' }));
    behind().upstream.respondWith((_req, res) => {
      stream(res, event(resultFor({ id: 1 }, { tasks })));
      res.end();
    });
    const streamed = await call(link, token, ask('tasks/list'));
    expect(streamed.text).to.include(own).and.not.include('foreign');
    behind().upstream.respondWith((_req, res) => json(res, [resultFor({ id: 1 }, { tasks })]));
    const batch = await call(link, token, [ask('tasks/list')]);
    expect(batch.text).to.include(own).and.not.include('foreign');
  });

  const ABOUT_A_TASK: Record<string, (taskId: string) => object> = {
    'its status (2025-11-25)': (taskId) => ({
      jsonrpc: '2.0',
      method: 'notifications/tasks/status',
      params: { taskId, status: 'working' },
    }),
    'its state (2026-07-28)': (taskId) => ({
      jsonrpc: '2.0',
      method: 'notifications/tasks',
      params: { taskId, status: 'completed', result: { content: [] } },
    }),
    'a question': (taskId) => ({
      jsonrpc: '2.0',
      id: 'question',
      method: 'elicitation/create',
      params: { message: 'Go on?', _meta: { [RELATED]: { taskId } } },
    }),
    'a log message': (taskId) => ({
      jsonrpc: '2.0',
      method: 'notifications/message',
      params: { level: 'info', data: 1, _meta: { [RELATED]: { taskId } } },
    }),
  };
  for (const [what, messageAbout] of Object.entries(ABOUT_A_TASK)) {
    it(`UPS-03 messages about another caller's task are dropped: ${what}`, async () => {
      const { link, token } = await connectPerson(behind().system, 'operations');
      const own = await create({ link, token });
      behind().upstream.respondWith((req, res) => {
        stream(res, event(messageAbout('foreign')), event(messageAbout(own)));
        if (req.method === 'POST') res.write(event(resultFor({ id: 1 })));
        res.end();
      });
      const headers = { authorization: `Bearer ${token}`, accept: 'text/event-stream' };
      const listening = await (await fetch(link, { headers })).text();
      const calling = (await call(link, token, ask('ping'))).text;
      for (const text of [listening, calling]) expect(text).to.include(own).not.include('foreign');
    });
  }

  it("UPS-03 another caller's task is removed from every result", async () => {
    const { link, token } = await connectPerson(behind().system, 'operations');
    for (const result of [
      { taskId: 'foreign', status: 'completed', result: { content: [] } },
      { content: [], _meta: { [RELATED]: { taskId: 'foreign' } } },
    ]) {
      behind().upstream.respondWith((_req, res) => json(res, resultFor({ id: 1 }, result)));
      const { rpc, text } = await call(link, token, toolCall('whoami'));
      expect(rpc?.error?.code).to.equal(NOT_FOUND);
      expect(text).to.not.include('foreign');
    }
  });

  it("UPS-03 a client's response cannot name another caller's task", async () => {
    const { link, token } = await connectPerson(behind().system, 'operations');
    const own = await create({ link, token });
    for (const taskId of [own, 'foreign']) {
      const _meta = { kept: 1, [RELATED]: { taskId } };
      await call(link, token, { jsonrpc: '2.0', id: 7, result: { action: 'accept', _meta } });
      await call(link, token, {
        jsonrpc: '2.0',
        method: 'notifications/progress',
        params: { progressToken: 1, progress: 1, _meta },
      });
    }
    const [ownAnswer, ownNotice, answer, notice] = behind()
      .upstream.received.slice(-4)
      .map(({ body }) => JSON.stringify(body));
    expect(ownAnswer).to.include(own);
    expect(ownNotice).to.include(own);
    expect(answer).to.include('"kept":1').and.not.include('foreign');
    expect(notice).to.include('"kept":1').and.not.include('foreign');
  });

  it('the task id is audited with each call with the level full', async () => {
    const { system } = behind();
    const { link, token } = await connectPerson(system, 'full');
    const taskId = await create({ link, token }, 'cards');
    await call(link, token, ask('tasks/result', { taskId }));
    const item = (await readAudit(system)).findLast(({ event: name }) => name === 'call');
    expect(item).to.deep.include({
      method: 'tasks/result',
      argumentsJson: JSON.stringify({ taskId }),
    });
  });
});

describe('A task that cannot be recorded', () => {
  const behind = useUpstream(startScriptedUpstream, { system: { store: 'redis' } });
  afterEach(() => behind().system.signalStore('SIGCONT'));

  it('UPS-01 a task that cannot be recorded is withheld, and the caller is told to retry', async () => {
    const { link, token } = await behind().connected('analytics');
    const task = { taskId: randomUUID(), status: 'working' };
    const stall = () => behind().system.signalStore('SIGSTOP');
    behind().upstream.respondWith((_req, res) => {
      stall();
      json(res, resultFor({ id: 1 }, { task }));
    });
    const refused = await call(link, token, toolCall('whoami'));
    expect(refused.status).to.equal(503);
    expect(refused.text).to.not.include(task.taskId);
    behind().system.signalStore('SIGCONT');
    behind().upstream.respondWith((_req, res) => {
      stall();
      stream(res, event(resultFor({ id: 1 }, { task })));
      res.end();
    });
    const broken = await call(link, token, toolCall('whoami'));
    expect(broken.text).to.include('"error"').and.not.include(task.taskId);
  });
});

describe('Stored tasks', () => {
  it('UPS-01 tasks still work after a restart with another root secret', async () => {
    const upstream = await startScriptedUpstream();
    const file = { resourceServer: { upstream: { url: upstream.url, defaultLevel: 'analytics' } } };
    const place = await createDeployment({ file });
    const [former, current] = ['1', '2'].map((digit) => digit.repeat(64));
    let system = await startDeployment(place, { GATEHOUSE_SECRET: String(former) });
    try {
      upstream.trustIssuer(system.auth);
      upstream.respondWith(openCarelessServer());
      const { link, token } = await connectPerson(system, 'operations');
      const { text } = await call(link, token, toolCall('whoami'));
      const { taskId } = JSON.parse(text).result.task;
      await system.stop();
      system = await restartSystem(
        place,
        {},
        { GATEHOUSE_SECRET: String(current), GATEHOUSE_PREVIOUS_SECRET: String(former) },
      );
      const own = await call(link, token, ask('tasks/get', { taskId }));
      const foreign = await call(link, token, ask('tasks/get', { taskId: randomUUID() }));
      expect(own.rpc?.result).to.be.an('object');
      expect(foreign.rpc?.error?.code).to.equal(NOT_FOUND);
    } finally {
      await system.stop();
      await place.release();
      await upstream.close();
    }
  });
});
