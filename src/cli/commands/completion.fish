# SPDX-License-Identifier: Apache-2.0
# fish completion for holdfast; written by: holdfast completion fish
function __holdfast_complete
    set -l words (commandline -opc)
    set -l cur (commandline -ct)
    set -l program (string replace -r '^~' $HOME -- $words[1])
    set -e words[1]
    set -l lines ($program completion words -- $words "$cur" 2>/dev/null)
    or return
    set -l kind (string split -m 1 ' ' -- $lines[1])
    set -e lines[1]
    switch $kind[1]
        case file
            set -l from (math 1 + (string length -- "$kind[2]"))
            set -l rest (string sub -s $from -- "$cur")
            for path in (__fish_complete_path "$rest")
                printf '%s%s\n' "$kind[2]" $path
            end
        case program
            __fish_complete_command
        case words nospace
            printf '%s\n' $lines
    end
end
complete -c holdfast -f -a '(__holdfast_complete)'
