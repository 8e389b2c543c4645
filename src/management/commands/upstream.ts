import type { Command } from 'commander';
import type { UpstreamResource } from '../api/resources.ts';
import { resolveUpstream, UPSTREAM } from './resolve.ts';
import { details, minute, plain, table, type Terminal } from './terminal.ts';

const EXAMPLES = `
Examples:
  $ gatehouse upstream list
  $ gatehouse upstream show orders`;

export function addUpstreamCommands(program: Command, { openClient, print }: Terminal): void {
  const upstream = program
    .command('upstream')
    .description('list the MCP servers and the levels of their tools')
    .addHelpText('after', EXAMPLES);
  upstream
    .command('list')
    .description('list the MCP servers in the settings')
    .action(async () => {
      print(await openClient().listUpstreams(), listText);
    });
  upstream
    .command('show')
    .description('show the tools of one MCP server and the level each needs')
    .argument('<upstream>', UPSTREAM)
    .action(async (text: string) => {
      const client = openClient();
      const id = await resolveUpstream(client, text);
      print(await client.showUpstream({ id }), detailsText);
    });
}

function listText({ items }: { items: UpstreamResource[] }): string {
  if (items.length === 0)
    return `There is no MCP server in the settings, so Gatehouse serves the built-in sample.
To put Gatehouse in front of your own, set resourceServer.upstream.`;
  const rows = items.map((item) => {
    const connectors = item.levels.reduce((sum, level) => sum + level.connectors, 0);
    const seen = item.seenAt ? minute(item.seenAt) : 'never';
    return [item.id, item.name, String(item.tools.length), String(connectors), seen, state(item)];
  });
  return table(['ID', 'NAME', 'TOOLS', 'CONNECTORS', 'LAST SEEN', 'STATE'], rows);
}

function state({ error, triedAt }: UpstreamResource): string {
  if (error) return plain(error.message);
  return triedAt ? 'answers' : 'not tried yet';
}

function detailsText(upstream: UpstreamResource): string {
  const { id, name, url, revision, seenAt, toolLevels, tools, missingTools, levels } = upstream;
  const facts = details({
    name,
    id,
    address: url,
    state: state(upstream),
    'last seen': seenAt ? minute(seenAt) : 'never',
    ...(revision === undefined ? {} : { revision }),
    'tool levels': toolLevels,
    ...(missingTools.length === 0 ? {} : { 'missing tools': missingTools.join(', ') }),
  });
  const toolRows = tools.map((tool) => [
    tool.name,
    tool.level ?? 'refused: its name is too similar to another',
    tool.isDeclared ? 'settings' : toolLevels === 'annotations' ? 'annotations' : 'default',
    tool.title ?? '',
  ]);
  const levelRows = levels.map(({ level, ...counts }) => [
    level,
    ...[counts.tools, counts.connectors, counts.tokens].map(String),
  ]);
  return [
    facts,
    ...(tools.length === 0 ? [] : [table(['TOOL', 'LEVEL', 'FROM', 'TITLE'], toolRows)]),
    table(['LEVEL', 'TOOLS', 'CONNECTORS', 'TOKENS'], levelRows),
  ].join('\n\n');
}
