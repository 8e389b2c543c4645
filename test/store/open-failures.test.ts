import { expect } from 'chai';
import { freePorts } from '../support/free-ports.ts';
import { runServer } from '../support/main-process.ts';
import { createDeployment, type Deployment } from '../support/system.ts';

describe('A server that cannot open its store', () => {
  let deployment: Deployment;
  afterEach(() => deployment.release());

  it('a server whose store is unreachable prints only the reason and exits with 1', async () => {
    const [port] = await freePorts(1);
    deployment = await createDeployment({ storeAddress: `redis://127.0.0.1:${port}` });
    const { code, stdout, stderr } = await runServer(deployment.environment);
    expect({ code, stdout }).to.deep.equal({ code: 1, stdout: '' });
    expect(stderr).to.match(
      /^the store at 127\.0\.0\.1:\d+ cannot be opened: .*; check GATEHOUSE_STORE\n$/,
    );
  });

  it('a server whose store was written with another secret prints only the reason and exits with 1', async () => {
    deployment = await createDeployment();
    await runServer({ ...deployment.environment, GATEHOUSE_SECRET: 'a'.repeat(32) }, /Ctrl-C/);
    const second = { ...deployment.environment, GATEHOUSE_SECRET: 'b'.repeat(32) };
    const { code, stderr } = await runServer(second);
    expect(code).to.equal(1);
    expect(stderr).to.match(/^the store was written with another secret: .*\n$/);
  });
});
