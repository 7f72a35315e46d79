# SPDX-License-Identifier: Apache-2.0
# bash completion for holdfast; written by: holdfast completion bash
# Splits the line at blanks itself, since bash also breaks words at "=" and at the colon of a URL.
_holdfast()
{
    local line=${COMP_LINE:0:COMP_POINT} IFS=$' \t\n' kind='' prefix='' cur word
    local -a words
    read -ra words <<<"$line"
    case $line in *[[:space:]]) words+=('') ;; esac
    cur=${words[${#words[@]}-1]}
    COMPREPLY=()
    {
        IFS=' ' read -r kind prefix
        case $kind in
        file)
            if [[ -n $prefix ]]; then compopt -o nospace 2>/dev/null
            else compopt -o filenames 2>/dev/null; fi
            while IFS= read -r word; do
                [[ -n $prefix && -d $word ]] && word+=/
                COMPREPLY+=("$prefix$word")
            done < <(compgen -f -- "${cur#"$prefix"}") ;;
        program)
            while IFS= read -r word; do COMPREPLY+=("$word")
            done < <(compgen -c -- "$cur") ;;
        words | nospace)
            [[ $kind == nospace ]] && compopt -o nospace 2>/dev/null
            while IFS=$'\t' read -r word _; do
                printf -v word %q "$word"
                COMPREPLY+=("$word")
            done ;;
        esac
    } < <("${words[0]/#\~/$HOME}" completion words -- "${words[@]:1}" 2>/dev/null)
    # bash replaces only what stands behind the last break.
    local broken=${cur%"${cur##*[:=]}"}
    if [[ -n $broken && $COMP_WORDBREAKS == *:* ]]; then
        COMPREPLY=("${COMPREPLY[@]#"$broken"}")
    fi
}
complete -F _holdfast holdfast
