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

/** What may come after some words; `isValue` when the last of them is an option that takes one, which may be anything. */
type Place = { words: string; next: string[]; isValue: boolean };

function placesIn(program: Command, command = program, path: string[] = []): Place[] {
  const options = [...program.options, ...(command === program ? [] : command.options)];
  const subcommands = command.commands.map((sub) => sub.name());
  const given = command.registeredArguments.flatMap(({ argChoices = [] }) => argChoices);
  const flags = options.flatMap(({ long }) => long ?? []);
  const here = { words: path.join(' '), next: [...subcommands, ...given, ...flags, '--help'] };
  return [
    { ...here, isValue: false },
    ...options.flatMap(({ long, required, argChoices = [] }) =>
      long && required
        ? [{ words: [...path, long].join(' '), next: argChoices, isValue: true }]
        : [],
    ),
    ...command.commands.flatMap((sub) => placesIn(program, sub, [...path, sub.name()])),
  ];
}

const SCRIPTS: Record<Shell, (name: string, places: Place[]) => string> = { bash, zsh, fish };

/** Words are those of our own commands: letters and dashes, safe in every shell. */
function cases(places: Place[], isValue: boolean): string {
  return places
    .filter((place) => place.isValue === isValue)
    .map(({ words, next }) => `    '${words}') offer='${next.join(' ')}' ;;`)
    .join('\n');
}

function commandsIn(places: Place[]): string {
  const known = places.filter(({ words, isValue }) => words !== '' && !isValue);
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

/** A place begins with a space, because in fish what is empty is not there. */
function fish(name: string, places: Place[]): string {
  const known = commandsIn(places).replaceAll("'|'", "' ' ").replace(/^'/, "' ");
  return `# Completion of ${name} in fish.
function __${name}_offer
  set -l words (commandline -opc)
  set -l place ''
  set -l offer
  for word in $words[2..-1]
    switch "$place $word"
      case ${known}
        set place "$place $word"
    end
  end
  switch "$place"
${fishCases(places, false)}
  end
  switch "$place $words[-1]"
${fishCases(places, true)}
  end
  string join -- \\n $offer
end
complete -c ${name} -f -a '(__${name}_offer)'`;
}

function fishCases(places: Place[], isValue: boolean): string {
  return places
    .filter((place) => place.isValue === isValue)
    .map(({ words, next }) => {
      const offer = next.length > 0 ? `set offer ${next.join(' ')}` : 'set offer';
      return `    case '${words && ` ${words}`}'\n      ${offer}`;
    })
    .join('\n');
}
