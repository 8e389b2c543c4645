// The command `completion`: a script for bash, zsh or fish that completes commands, options and choices, made of the tree of commands.
import { Argument, type Command } from 'commander';

export const SHELLS = ['bash', 'zsh', 'fish'] as const;
type Shell = (typeof SHELLS)[number];

const HELP = `
Examples:
  $ gatehouse completion bash > ~/.local/share/bash-completion/completions/gatehouse
  $ gatehouse completion zsh > ~/.zfunc/_gatehouse      (a directory in fpath, before compinit)
  $ gatehouse completion fish > ~/.config/fish/completions/gatehouse.fish`;

export function addCompletionCommand(program: Command): void {
  program
    .command('completion')
    .description('print a script that completes commands and options in a shell')
    .addArgument(new Argument('<shell>', 'whose').choices(SHELLS))
    .addHelpText('after', HELP)
    .action((shell: Shell) => {
      console.log(SCRIPTS[shell](program.name(), placesIn(program)));
    });
}

/** What may come after some words: `choices` are of the option or the argument that comes last in `words`. */
type Place = { words: string; next: string[]; isChoice: boolean };

function placesIn(program: Command, command = program, path: string[] = []): Place[] {
  const options = [...program.options, ...(command === program ? [] : command.options)];
  const subcommands = command.commands.map((sub) => sub.name());
  const given = command.registeredArguments.flatMap(({ argChoices = [] }) => argChoices);
  const flags = options.flatMap(({ long }) => long ?? []);
  const here = { words: path.join(' '), next: [...subcommands, ...given, ...flags, '--help'] };
  return [
    { ...here, isChoice: false },
    ...options.flatMap(({ long, argChoices }) =>
      argChoices && long
        ? [{ words: [...path, long].join(' '), next: argChoices, isChoice: true }]
        : [],
    ),
    ...command.commands.flatMap((sub) => placesIn(program, sub, [...path, sub.name()])),
  ];
}

const SCRIPTS: Record<Shell, (name: string, places: Place[]) => string> = { bash, zsh, fish };

/** Words are those of our own commands: letters and dashes, safe in every shell. */
function cases(places: Place[], isChoice: boolean): string {
  return places
    .filter((place) => place.isChoice === isChoice)
    .map(({ words, next }) => `    '${words}') offer='${next.join(' ')}' ;;`)
    .join('\n');
}

function commandsIn(places: Place[]): string {
  const known = places.filter(({ words, isChoice }) => words !== '' && !isChoice);
  return known.map(({ words }) => `'${words}'`).join('|');
}

/** The words so far are in `before`, and the last of them in `previous`. */
function choosing(places: Place[]): string {
  return `  local place='' word='' offer=''
  for word in "\${before[@]}"; do
    case "\${place:+$place }$word" in
    ${commandsIn(places)}) place="\${place:+$place }$word" ;;
    esac
  done
  case "$place" in
${cases(places, false)}
  esac
  case "\${place:+$place }$previous" in
${cases(places, true)}
  esac`;
}

function bash(name: string, places: Place[]): string {
  return `# Completion of ${name} in bash.
_${name}() {
  local current="\${COMP_WORDS[COMP_CWORD]}" previous="\${COMP_WORDS[COMP_CWORD - 1]}"
  local before=("\${COMP_WORDS[@]:1:COMP_CWORD - 1}")
${choosing(places)}
  COMPREPLY=($(compgen -W "$offer" -- "$current"))
}
complete -o default -F _${name} ${name}`;
}

function zsh(name: string, places: Place[]): string {
  return `#compdef ${name}
# Completion of ${name} in zsh.
_${name}() {
  local previous="\${words[CURRENT - 1]}"
  local -a before=("\${(@)words[2, CURRENT - 1]}")
${choosing(places)}
  compadd -- \${=offer}
}
if [ "$funcstack[1]" = _${name} ]; then _${name} "$@"; else compdef _${name} ${name}; fi`;
}

function fish(name: string, places: Place[]): string {
  const known = commandsIn(places).replaceAll('|', ' ');
  const lines = places.map(({ words, next, isChoice }) => {
    const test = isChoice ? `__${name}_after '${words}'` : `__${name}_at '${words}'`;
    return `complete -c ${name} -f -n "${test}" -a '${next.join(' ')}'`;
  });
  return `# Completion of ${name} in fish.
function __${name}_place
  set -l place
  for word in (commandline -opc)[2..-1]
    if contains -- (string join ' ' $place $word) ${known}
      set -a place $word
    end
  end
  string join ' ' $place
end
function __${name}_at
  test (string join ' ' (__${name}_place)) = "$argv[1]"
end
function __${name}_after
  set -l last (commandline -opc)[-1]
  test (string join ' ' (string split ' ' (__${name}_place)) $last) = "$argv[1]"
end
${lines.join('\n')}`;
}
