#compdef holdfast
# SPDX-License-Identifier: Apache-2.0
# zsh completion for holdfast; written by: holdfast completion zsh
_holdfast()
{
    local -a lines names shown
    local line kind prefix
    lines=("${(@f)$("${(Q)words[1]/#\~/$HOME}" completion words -- \
        "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}")
    kind=${lines[1]%% *}
    prefix=${${lines[1]#$kind}# }
    case $kind in
    file)
        [[ -n $prefix ]] && compset -P "${(b)prefix}"
        _files ;;
    program) _command_names -e ;;
    words | nospace)
        for line in "${(@)lines[2,-1]}"; do
            names+=("${line%%$'\t'*}")
            shown+=("${line/$'\t'/  -- }")
        done
        if [[ $kind == nospace ]]; then compadd -S '' -l -d shown -a names
        else compadd -l -d shown -a names; fi ;;
    esac
}
if [[ $funcstack[1] == _holdfast ]]; then _holdfast "$@"
else compdef _holdfast holdfast; fi
