// The commands of a resource, made from its description.
import { type Command as Program, Option } from 'commander';
import { allItems } from '../api/all-items.ts';
import type { ManagementClient } from '../api/client.ts';
import { OPERATIONS } from '../api/operations.ts';
import { type Fields, findNames, listText } from '../resources/fields.ts';
import type {
  CommandOption,
  Operation,
  Options,
  ResourceCommands,
  ResultCommand,
} from '../resources/resource.ts';
import type { Page } from '../resources/schemas.ts';
import type { Terminal } from './terminal.ts';
import { escapedTexts, writeTexts } from './write-texts.ts';

/** Adds `gatehouse <noun>` with its commands. */
export function addResourceCommands(
  program: Program,
  { openClient, print, exitWith, output }: Terminal,
  { noun, description, examples, commands }: ResourceCommands,
): void {
  const parent = program.command(noun).description(description).addHelpText('after', examples);
  for (const command of commands) {
    const { argument } = command;
    const added = parent.command(command.name).description(command.description);
    if (argument) added.argument(`<${argument.name}>`, argument.help);
    for (const option of command.options ?? []) added.addOption(optionOf(option));
    if (command.help) added.addHelpText('after', command.help);
    added.action(async (...words: unknown[]) => {
      const text = argument ? String(words[0]) : '';
      const options = words[argument ? 1 : 0] as Options;
      const api = openClient();
      const id = (await argument?.resolve?.(api, text)) ?? text;
      if (command.csv && options['format'] === 'csv') {
        const query = await membersOf(api, command.options ?? [], options);
        return writeTexts(await api[command.csv]({ query }), output);
      }
      if (command.lines)
        return writeTexts(escapedTexts(await command.lines(api, { id, options })), output);
      const response = await responseTo(api, command, id, options);
      const shown = await textOf(api, command, response, options);
      print(response, () => shown);
      const code = 'exitCode' in command ? command.exitCode?.(response as never) : 0;
      if (code) exitWith(code);
    });
  }
}

function optionOf({ flags, help, isRequired, choices, parse, removal }: CommandOption): Option {
  const option = new Option(flags, help);
  if (isRequired) option.makeOptionMandatory();
  if (choices) option.choices(choices);
  const parseValue = parse as ((text: string, earlier: unknown) => unknown) | undefined;
  if (parseValue)
    option.argParser((text: string, earlier: unknown) =>
      text === removal ? text : parseValue(text, earlier === removal ? undefined : earlier),
    );
  return option;
}

async function responseTo(
  api: ManagementClient,
  command: ResultCommand,
  id: string,
  options: Options,
): Promise<unknown> {
  const { operation, run } = command;
  if (run || !operation) return run?.(api, { id, options });
  const { path, query, body }: Operation = OPERATIONS[operation];
  const call = api[operation] as (request: object) => Promise<unknown>;
  const members = await membersOf(api, command.options ?? [], options);
  if (query && 'after' in query.shape) {
    const read = (page: object) => call({ query: { ...members, ...page } });
    const items = await Array.fromAsync(allItems((page) => read(page) as Promise<Page<never>>));
    return { items: 'sort' in command && command.sort ? command.sort(items) : items };
  }
  if (!body) return call({ id, ...(query ? { query: members } : {}) });
  // The id of a client can be a URL, so it is in the body.
  const hasIdInBody = command.argument !== undefined && !path.includes(':id');
  const { true: parameters = [], false: others = [] } = Object.groupBy(
    Object.entries(members),
    ([name]) => (query !== undefined && name in query.shape ? 'true' : 'false'),
  );
  const sent = { ...(hasIdInBody ? { id } : {}), ...Object.fromEntries(others) };
  return call({ id, query: Object.fromEntries(parameters), body: sent });
}

/** The members of the query or body that the given options set. */
async function membersOf(
  api: ManagementClient,
  options: readonly CommandOption[],
  given: Options,
): Promise<object> {
  const all: object[] = [];
  for (const option of options) {
    const name = optionOf(option).attributeName();
    const value = given[name];
    if (value === undefined) continue;
    if (value === option.removal) {
      all.push({ [option.member ?? name]: null });
      continue;
    }
    const members = option.members?.(value as never, api, given);
    all.push((await members) ?? { [option.member ?? name]: value });
  }
  return Object.assign({}, ...all);
}

async function textOf(
  api: ManagementClient,
  command: ResultCommand,
  response: unknown,
  options: Options,
): Promise<string> {
  if ('text' in command) return command.text(response as never, options);
  const { items } = response as { items: never[] };
  const { fields, columns, empty, sortShown } = command;
  if (items.length === 0 && options['search'] !== undefined) return 'Nothing matches the search.';
  if (items.length === 0) return typeof empty === 'string' ? empty : empty(options);
  const shown = (sortShown?.(items) ?? items) as never[];
  const known = fields as Fields<never>;
  return listText(known, columns, shown, await findNames(api, known, columns, shown));
}
