// Runs the verifiers of the caller header in config/recipes, as its README has them, and its test vectors.
import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, readFileSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { createLocalJWKSet, type JSONWebKeySet, type JWTPayload } from 'jose';
import { z } from 'zod';
import { callerVerifier } from '../config/recipes/caller.ts';
import { plainHeaders } from '../src/gateway/upstream/plain-headers.ts';
import { HEADERS, message } from './interoperability/messages.ts';
import { temporaryDirectory } from './settings/settings-file.ts';
import { connect } from './support/connection.ts';
import { freePorts } from './support/free-ports.ts';
import { createConnector, requestManagement } from './support/management-api.ts';
import { PYTHON, requireProgram } from './support/programs.ts';
import { commandIn, recipe, ROOT, runLine, settingsIn, stopAll } from './support/recipes.ts';
import {
  createDeployment,
  type Deployment,
  startDeployment,
  type System,
} from './support/system.ts';
import { callTool } from './support/mcp.ts';
import { until } from './support/until.ts';
import { VECTORS } from './support/write-caller-vectors.ts';

type Vectors = {
  issuer: string;
  audience: string;
  now: number;
  keys: JSONWebKeySet;
  headers: { name: string; header: string; claims?: JWTPayload }[];
  encodings: { text?: string; groups?: string[]; encoded: string }[];
};

const vectors: Vectors = JSON.parse(readFileSync(VECTORS, 'utf8'));
const TOOLS = z.looseObject({ tools: z.array(z.unknown()) });
const FOUND_BY = { python: 'tools.py', typescript: 'whoami.ts' } as const;
type Language = keyof typeof FOUND_BY;

describe('The test vectors of the caller header', () => {
  const expected = vectors.headers.map(({ name, claims }) => [name, claims ?? null]);

  it('UPS-21 the verifier in TypeScript accepts the valid headers, and no other', async () => {
    const { issuer, audience, now, keys } = vectors;
    const verify = callerVerifier({
      issuer,
      audience,
      keys: createLocalJWKSet(keys),
      now: () => new Date(now * 1000),
    });
    const outcomes = await Promise.all(
      vectors.headers.map(async ({ name, header }) => [
        name,
        await verify(header).catch(() => null),
      ]),
    );
    expect(outcomes).to.deep.equal(expected);
  });

  it('UPS-21 the verifier in Python accepts the valid headers, and no other', () => {
    const script = join(ROOT, 'test/support/check_vectors.py');
    const { stdout, stderr } = spawnSync(requireProgram(PYTHON), [script, VECTORS]);
    expect(String(stderr)).to.equal('');
    const outcomes: unknown[] = JSON.parse(String(stdout));
    expect(vectors.headers.map(({ name }, n) => [name, outcomes[n]])).to.deep.equal(expected);
  });

  it('the values of plain headers are those that Gatehouse sends', () => {
    const caller = { sub: 'a', client_id: 'a', level: 'full' };
    for (const { text, groups, encoded } of vectors.encodings) {
      const claims = { ...caller, ...(groups ? { groups } : { name: text ?? '' }) };
      const sent = plainHeaders({ x: groups ? 'groups' : 'name' }, claims);
      expect(sent, encoded).to.deep.equal({ x: encoded });
    }
  });
});

describe('The servers of the recipes that know who calls', () => {
  let place: Deployment;
  let system: System;
  const urls = { python: '', typescript: '' };

  before(async () => {
    const [python = 0, typescript = 0] = await freePorts(2);
    const text = recipe('A server that knows who calls');
    const { upstream } = settingsIn(text).resourceServer;
    Object.assign(urls, {
      python: `http://127.0.0.1:${python}/mcp`,
      typescript: `http://127.0.0.1:${typescript}/mcp`,
    });
    const upstreams = Object.entries(urls).map(([id, url]) => ({ ...upstream, id, url }));
    place = await createDeployment({ file: { resourceServer: { upstreams } } });
    const { auth } = place.facts;
    const folder = temporaryDirectory();
    const project = join(folder, 'project');
    mkdirSync(project);
    for (const file of ['caller.ts', 'whoami.ts'])
      copyFileSync(join(ROOT, 'config/recipes', file), join(project, file));
    symlinkSync(join(ROOT, 'node_modules'), join(project, 'node_modules'));
    const line = (part: string, port: number) =>
      `TOOLS_PORT=${port} ${commandIn(text, part).replace('http://localhost:4000', auth)}`;
    await Promise.all([
      runLine(
        line(FOUND_BY.python, python)
          .replace('node_modules/gatehouse', ROOT)
          .replace('python3', `PYTHONDONTWRITEBYTECODE=1 ${requireProgram(PYTHON)}`),
        folder,
        urls.python,
      ),
      runLine(
        line(FOUND_BY.typescript, typescript).replace('node ', `${process.execPath} `),
        project,
        urls.typescript,
      ),
    ]);
    system = await startDeployment(place);
    // Their levels follow from the annotations.
    for (const id of Object.keys(urls))
      await until(`the tools of ${id}`, async () => {
        const { tools } = TOOLS.parse(await requestManagement(system, 'GET', `/upstreams/${id}`));
        return tools.length > 0;
      });
  });
  after(async () => {
    await system?.stop();
    await place?.release();
    await stopAll();
  });

  for (const language of Object.keys(FOUND_BY) as Language[]) {
    it(`behind Gatehouse, the server in ${language} knows the person who calls`, async () => {
      const connector = await createConnector(system, { upstream: language, level: 'analytics' });
      const { link, accessToken } = await connect(system, connector, { level: 'analytics' });
      const { rpc } = await callTool(link, accessToken, 'whoami', {});
      const [{ text = '' } = {}] = (rpc?.result?.['content'] ?? []) as { text?: string }[];
      expect(JSON.parse(text)).to.deep.include({
        iss: system.auth,
        aud: urls[language],
        connector: connector.id,
        level: 'analytics',
        name: 'Ada Lovelace',
        email: 'ada@example.com',
        email_verified: true,
      });
    });

    it(`UPS-21 the server in ${language} answers nobody but Gatehouse`, async () => {
      const connector = await createConnector(system, { upstream: language, level: 'analytics' });
      const { accessToken } = await connect(system, connector, { level: 'analytics' });
      const forged = vectors.headers.map(({ header }) => header);
      for (const header of [undefined, accessToken, ...forged]) {
        const { status } = await fetch(urls[language], {
          method: 'POST',
          headers: { ...HEADERS, ...(header === undefined ? {} : { 'gatehouse-caller': header }) },
          body: message('tools/list', {}),
        });
        expect(status, header).to.equal(401);
      }
    });
  }
});
