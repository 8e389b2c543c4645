// The page of a connect link: which apps it has instructions for, and the button that copies the link.
import { expect } from 'chai';
import { usePage } from '../support/chromium.ts';
import { createConnector } from '../support/management-api.ts';
import { useSystem } from '../support/system.ts';

const VS_CODE = 'https://vscode.dev/oauth/client-metadata.json';
const visit = async (link: string) =>
  (await fetch(link, { headers: { accept: 'text/html' } })).text();
const titlesIn = (html: string) =>
  [...html.matchAll(/<summary>([^<]+)<\/summary>/g)].map(([, title]) => title);

describe('The apps on the page of a connect link', () => {
  describe('if every app may register itself', () => {
    const system = useSystem();
    const tab = usePage();

    it('the page has the instructions of each program on a person’s own computer, and says what Gatehouse cannot change', async () => {
      const html = await visit((await createConnector(system())).link);
      expect(titlesIn(html)).to.include.members(['Claude Code', 'VS Code', 'Cursor', 'Codex']);
      expect(html)
        .to.include('allow custom apps or connectors')
        .and.include('over the internet')
        .and.include('remove the link in the app and add it again')
        .and.include('claude mcp remove');
    });

    it('a button copies the link with a script of its own origin, and without a script the page has the link alone', async () => {
      const { link } = await createConnector(system());
      await tab().context().grantPermissions(['clipboard-read', 'clipboard-write']);
      await tab().goto(link);
      await tab().getByRole('button', { name: 'Copy the connect link' }).click();
      expect(await tab().evaluate('navigator.clipboard.readText()')).to.equal(link);
      const html = await visit(link);
      expect(html).to.include(`<bdi id="connect-link">${link}</bdi>`).and.not.include('<button');
      const { headers } = await fetch(link, { headers: { accept: 'text/html' } });
      expect(headers.get('content-security-policy')).to.match(/;script-src 'self'$/);
    });
  });

  describe('if registration is closed', () => {
    const system = useSystem({
      file: { clients: { registration: 'closed', metadataDocumentHosts: ['vscode.dev'] } },
    });

    it('the page has the instructions and buttons of apps whose metadata documents are listed, and of no app that registers itself', async () => {
      const html = await visit((await createConnector(system())).link);
      expect(VS_CODE).to.include('//vscode.dev/');
      expect(titlesIn(html)).to.include('VS Code').and.include('Other apps');
      expect(titlesIn(html)).to.not.include.members(['Cursor', 'Codex', 'Gemini CLI']);
      expect(html).to.include('vscode:mcp/install').and.not.include('cursor://');
    });
  });
});
