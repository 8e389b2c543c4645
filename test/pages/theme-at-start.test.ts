import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { runServer } from '../support/main-process.ts';
import { createDeployment, type Deployment } from '../support/system.ts';

describe('an invalid theme', () => {
  let place: Deployment;
  afterEach(() => place.release());

  it('the server exits with code 2 and names file and line', async () => {
    const theme = mkdtempSync(join(tmpdir(), 'theme-'));
    place = await createDeployment({ file: { theme } });
    writeFileSync(join(theme, 'home.ejs'), '<h1>\n<%= page.nobody %>\n</h1>');
    const { code, stdout, stderr } = await runServer(place.environment);
    expect({ code, stdout }).to.deep.equal({ code: 2, stdout: '' });
    expect(stderr).to.include(
      `${join(theme, 'home.ejs')}:2: page.nobody is not a value of any page`,
    );
    expect(stderr).not.to.include('    at ');
    rmSync(theme, { recursive: true });
  });
});
