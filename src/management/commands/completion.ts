import { Argument, type Command } from 'commander';
import type { Terminal } from './terminal.ts';

export const SHELLS = ['bash', 'zsh', 'fish'] as const;
type Shell = (typeof SHELLS)[number];

const HELP = `
The script also completes the levels and upstreams of the running Gatehouse.

Examples:
  $ gatehouse completion bash > ~/.local/share/bash-completion/completions/gatehouse
  $ gatehouse completion zsh > ~/.zfunc/_gatehouse      (a directory in fpath, before compinit)
  $ gatehouse completion fish > ~/.config/fish/completions/gatehouse.fish`;

export function addCompletionCommand(
  program: Command,
  { write, openClient, progress }: Terminal,
): void {
  program
    .command('completion')
    .description('print a shell script that completes commands and options')
    .addArgument(new Argument('<shell>', 'the shell to print the script for').choices(SHELLS))
    .addHelpText('after', HELP)
    .action(async (shell: Shell) => {
      const known = await idsOf(openClient).catch((): KnownIds => ({}));
      if (Object.keys(known).length === 0)
        progress.write(
          'Gatehouse cannot be reached, so the script does not complete levels and upstreams. Start Gatehouse and print the script again.\n',
        );
      write(SCRIPTS[shell](program.name(), completionsOf(program, known)));
    });
}

/** Candidates by the name of a value: `level` for `--level <level>`. */
type KnownIds = Readonly<Record<string, readonly string[]>>;

/** The levels and upstreams of the running Gatehouse, as far as it lists them. */
async function idsOf(openClient: Terminal['openClient']): Promise<KnownIds> {
  const client = openClient();
  const lists = { level: client.listLevels(), upstream: client.listUpstreams() };
  const known = await Promise.all(
    Object.entries(lists).map(async ([name, list]) => {
      const page = await list.catch(() => undefined);
      return page ? [[name, page.items.map(({ id }) => id)] as const] : [];
    }),
  );
  return Object.fromEntries(known.flat());
}

/** The `candidates` after some words. `isValue` means that the last word is an option that takes a value. */
type Completion = { words: string; candidates: string[]; isValue: boolean };

function completionsOf(
  program: Command,
  known: KnownIds,
  command = program,
  path: string[] = [],
): Completion[] {
  const options = [...program.options, ...(command === program ? [] : command.options)];
  const subcommands = command.commands.map((sub) => sub.name());
  const choices = command.registeredArguments.flatMap(
    (argument) => argument.argChoices ?? known[argument.name()] ?? [],
  );
  const flags = options.flatMap(({ long }) => long ?? []);
  const here = {
    words: path.join(' '),
    candidates: [...subcommands, ...choices, ...flags, '--help'],
  };
  return [
    { ...here, isValue: false },
    ...options.flatMap(({ long, required, argChoices, flags }) => {
      const [, valueName = ''] = /<(\w+)>$/.exec(flags) ?? [];
      const candidates = [...(argChoices ?? known[valueName] ?? [])];
      return long && required
        ? [{ words: [...path, long].join(' '), candidates, isValue: true }]
        : [];
    }),
    ...command.commands.flatMap((sub) => completionsOf(program, known, sub, [...path, sub.name()])),
  ];
}

const SCRIPTS: Record<Shell, (name: string, completions: Completion[]) => string> = {
  bash,
  zsh,
  fish,
};

/** Command names contain only letters and dashes, so they need no quoting in any shell. */
function cases(completions: Completion[], isValue: boolean): string {
  return completions
    .filter((completion) => completion.isValue === isValue)
    .map(({ words, candidates }) => `    '${words}') candidates='${candidates.join(' ')}' ;;`)
    .join('\n');
}

function commandsIn(completions: Completion[]): string {
  const known = completions.filter(({ words, isValue }) => words !== '' && !isValue);
  return known.map(({ words }) => `'${words}'`).join('|');
}

/** Sets `candidates`. The script has set `before` to the words so far and `previous` to the last of them. */
function selectCandidates(completions: Completion[]): string {
  return `  local command='' word='' candidates=''
  for word in "\${before[@]}"; do
    case "\${command:+$command }$word" in
    ${commandsIn(completions)}) command="\${command:+$command }$word" ;;
    esac
  done
  case "$command" in
${cases(completions, false)}
  esac
  case "\${command:+$command }$previous" in
${cases(completions, true)}
  esac`;
}

function bash(name: string, completions: Completion[]): string {
  return `# Completion of ${name} in bash.
_${name}() {
  local current="\${COMP_WORDS[COMP_CWORD]}" previous="\${COMP_WORDS[COMP_CWORD - 1]}"
  local before=("\${COMP_WORDS[@]:1:COMP_CWORD - 1}")
${selectCandidates(completions)}
  COMPREPLY=($(compgen -W "$candidates" -- "$current"))
}
complete -o default -F _${name} ${name}`;
}

function zsh(name: string, completions: Completion[]): string {
  return `#compdef ${name}
# Completion of ${name} in zsh.
_${name}() {
  local previous="\${words[CURRENT - 1]}"
  local -a before=("\${(@)words[2, CURRENT - 1]}")
${selectCandidates(completions)}
  compadd -- \${=candidates}
}
if [ "$funcstack[1]" = _${name} ]; then _${name} "$@"; else compdef _${name} ${name}; fi`;
}

/** Words start with a space, because fish drops empty values. */
function fish(name: string, completions: Completion[]): string {
  const known = commandsIn(completions).replaceAll("'|'", "' ' ").replace(/^'/, "' ");
  return `# Completion of ${name} in fish.
function __${name}_candidates
  set -l words (commandline -opc)
  set -l command ''
  set -l candidates
  for word in $words[2..-1]
    switch "$command $word"
      case ${known}
        set command "$command $word"
    end
  end
  switch "$command"
${fishCases(completions, false)}
  end
  switch "$command $words[-1]"
${fishCases(completions, true)}
  end
  string join -- \\n $candidates
end
complete -c ${name} -f -a '(__${name}_candidates)'`;
}

function fishCases(completions: Completion[], isValue: boolean): string {
  return completions
    .filter((completion) => completion.isValue === isValue)
    .map(({ words, candidates }) => {
      const command =
        candidates.length > 0 ? `set candidates ${candidates.join(' ')}` : 'set candidates';
      return `    case '${words && ` ${words}`}'\n      ${command}`;
    })
    .join('\n');
}
