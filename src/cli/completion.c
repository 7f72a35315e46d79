/* completion.c: the scripts that teach shells to complete: thin, since the program itself says what
 * fits (complete.c), from the one table.
 *
 * The one for bash takes the line apart at blanks by itself, since bash also breaks words at the
 * colon of a store URL and at "=", and needs no other package. */
#include "cli/cli.h"

/* clang-format off */
static const char bash_script[] =
    "# bash completion for holdfast; written by: holdfast completion bash\n"
    "_holdfast()\n"
    "{\n"
    "    local line=${COMP_LINE:0:COMP_POINT} IFS=$' \\t\\n' kind='' prefix='' cur word\n"
    "    local -a words\n"
    "    read -ra words <<<\"$line\"\n"
    "    case $line in *[[:space:]]) words+=('') ;; esac\n"
    "    cur=${words[${#words[@]}-1]}\n"
    "    COMPREPLY=()\n"
    "    {\n"
    "        IFS=' ' read -r kind prefix\n"
    "        case $kind in\n"
    "        file)\n"
    "            if [[ -n $prefix ]]; then compopt -o nospace 2>/dev/null\n"
    "            else compopt -o filenames 2>/dev/null; fi\n"
    "            while IFS= read -r word; do\n"
    "                [[ -n $prefix && -d $word ]] && word+=/\n"
    "                COMPREPLY+=(\"$prefix$word\")\n"
    "            done < <(compgen -f -- \"${cur#\"$prefix\"}\") ;;\n"
    "        program)\n"
    "            while IFS= read -r word; do COMPREPLY+=(\"$word\")\n"
    "            done < <(compgen -c -- \"$cur\") ;;\n"
    "        words | nospace)\n"
    "            [[ $kind == nospace ]] && compopt -o nospace 2>/dev/null\n"
    "            while IFS=$'\\t' read -r word _; do\n"
    "                printf -v word %q \"$word\"\n"
    "                COMPREPLY+=(\"$word\")\n"
    "            done ;;\n"
    "        esac\n"
    "    } < <(\"${words[0]/#\\~/$HOME}\" completion words -- \"${words[@]:1}\" 2>/dev/null)\n"
    "    # bash replaces only what stands behind the last break.\n"
    "    local broken=${cur%\"${cur##*[:=]}\"}\n"
    "    if [[ -n $broken && $COMP_WORDBREAKS == *:* ]]; then\n"
    "        COMPREPLY=(\"${COMPREPLY[@]#\"$broken\"}\")\n"
    "    fi\n"
    "}\n"
    "complete -F _holdfast holdfast\n";

static const char zsh_script[] =
    "#compdef holdfast\n"
    "# zsh completion for holdfast; written by: holdfast completion zsh\n"
    "_holdfast()\n"
    "{\n"
    "    local -a lines names shown\n"
    "    local line kind prefix\n"
    "    lines=(\"${(@f)$(\"${(Q)words[1]/#\\~/$HOME}\" completion words -- \\\n"
    "        \"${(@Q)words[2,CURRENT-1]}\" \"${(Q)PREFIX}\" 2>/dev/null)}\")\n"
    "    kind=${lines[1]%% *}\n"
    "    prefix=${${lines[1]#$kind}# }\n"
    "    case $kind in\n"
    "    file)\n"
    "        [[ -n $prefix ]] && compset -P \"${(b)prefix}\"\n"
    "        _files ;;\n"
    "    program) _command_names -e ;;\n"
    "    words | nospace)\n"
    "        for line in \"${(@)lines[2,-1]}\"; do\n"
    "            names+=(\"${line%%$'\\t'*}\")\n"
    "            shown+=(\"${line/$'\\t'/  -- }\")\n"
    "        done\n"
    "        if [[ $kind == nospace ]]; then compadd -S '' -l -d shown -a names\n"
    "        else compadd -l -d shown -a names; fi ;;\n"
    "    esac\n"
    "}\n"
    "if [[ $funcstack[1] == _holdfast ]]; then _holdfast \"$@\"\n"
    "else compdef _holdfast holdfast; fi\n";

static const char fish_script[] =
    "# fish completion for holdfast; written by: holdfast completion fish\n"
    "function __holdfast_complete\n"
    "    set -l words (commandline -opc)\n"
    "    set -l cur (commandline -ct)\n"
    "    set -l program (string replace -r '^~' $HOME -- $words[1])\n"
    "    set -e words[1]\n"
    "    set -l lines ($program completion words -- $words \"$cur\" 2>/dev/null)\n"
    "    or return\n"
    "    set -l kind (string split -m 1 ' ' -- $lines[1])\n"
    "    set -e lines[1]\n"
    "    switch $kind[1]\n"
    "        case file\n"
    "            set -l from (math 1 + (string length -- \"$kind[2]\"))\n"
    "            set -l rest (string sub -s $from -- \"$cur\")\n"
    "            for path in (__fish_complete_path \"$rest\")\n"
    "                printf '%s%s\\n' \"$kind[2]\" $path\n"
    "            end\n"
    "        case program\n"
    "            __fish_complete_command\n"
    "        case words nospace\n"
    "            printf '%s\\n' $lines\n"
    "    end\n"
    "end\n"
    "complete -c holdfast -f -a '(__holdfast_complete)'\n";
/* clang-format on */

enum hf_status run_completion_bash(struct cli *cli)
{
    output_text(&cli->out, bash_script);
    return HF_OK;
}

enum hf_status run_completion_zsh(struct cli *cli)
{
    output_text(&cli->out, zsh_script);
    return HF_OK;
}

enum hf_status run_completion_fish(struct cli *cli)
{
    output_text(&cli->out, fish_script);
    return HF_OK;
}
