/* completion.c: the bash completion script, written from the table.
 *
 * The script takes the line apart at blanks by itself, since bash also breaks words at the
 * colon of a store URL and at "=", and needs no other package. */
#include "cli/cli.h"

static const char script_start[] =
    "# bash completion for holdfast; written by: holdfast completion bash\n"
    "_holdfast()\n"
    "{\n"
    "    local -a words\n"
    "    local cur prev path='' word i kind='' options\n"
    "    read -ra words <<<\"${COMP_LINE:0:COMP_POINT}\"\n"
    "    case \"${COMP_LINE:0:COMP_POINT}\" in *[[:space:]]) words+=('') ;; esac\n"
    "    cur=${words[${#words[@]}-1]} prev=''\n"
    "    if ((${#words[@]} > 1)); then prev=${words[${#words[@]}-2]}; fi\n"
    "    case $cur in --*=*) prev=${cur%%=*} cur=${cur#*=} ;; esac\n"
    "    for ((i = 1; i < ${#words[@]} - 1; i++)); do\n"
    "        word=${words[i]}\n"
    "        if [[ $word == -* ]]; then _holdfast_value \"$path\" \"$word\" >/dev/null && "
    "((i++)); continue; fi\n"
    "        if _holdfast_is_command \"$path\" && ! _holdfast_is_command \"$path $word\"; "
    "then break; fi\n"
    "        path=${path:+$path }$word\n"
    "    done\n"
    "    COMPREPLY=()\n"
    "    if kind=$(_holdfast_value \"$path\" \"$prev\"); then :\n"
    "    elif [[ $cur == -* ]]; then kind=options\n"
    "    elif _holdfast_is_command \"$path\"; then kind=$(_holdfast_argument \"$path\")\n"
    "    else kind=commands\n"
    "    fi\n"
    "    case $kind in\n"
    "    options)\n"
    "        options=$(_holdfast_options \"$path\")\n"
    "        COMPREPLY=($(compgen -W \"$options\" -- \"$cur\")) ;;\n"
    "    commands)\n"
    "        COMPREPLY=($(compgen -W \"$(_holdfast_commands \"$path\")\" -- \"$cur\")) ;;\n"
    "    help)\n"
    "        path=''\n"
    "        for ((i = 2; i < ${#words[@]} - 1; i++)); do path=${path:+$path }${words[i]}; "
    "done\n"
    "        COMPREPLY=($(compgen -W \"$(_holdfast_commands \"$path\")\" -- \"$cur\")) ;;\n"
    "    file)\n"
    "        compopt -o filenames 2>/dev/null\n"
    "        COMPREPLY=($(compgen -f -- \"$cur\")) ;;\n"
    "    url)\n"
    "        compopt -o nospace 2>/dev/null\n"
    "        case $cur in\n"
    "        dir:* | sqlite:*)\n"
    "            for word in $(compgen -f -- \"${cur#*:}\"); do\n"
    "                [[ -d $word ]] && word+=/\n"
    "                COMPREPLY+=(\"${cur%%:*}:$word\")\n"
    "            done ;;\n";

static const char script_end[] = "        esac ;;\n"
                                 "    esac\n"
                                 "    # bash replaces only what stands behind the last break.\n"
                                 "    local broken=${cur%\"${cur##*[:=]}\"}\n"
                                 "    if [[ -n $broken && $COMP_WORDBREAKS == *:* ]]; then\n"
                                 "        COMPREPLY=(\"${COMPREPLY[@]#\"$broken\"}\")\n"
                                 "    fi\n"
                                 "}\n"
                                 "complete -F _holdfast holdfast\n";

static void write_list(struct cli *cli, const struct option_spec *options)
{
    for (const struct option_spec *o = options; o->name; o++) {
        output_print(&cli->out, " --%s", o->name);
        if (o->letter)
            output_print(&cli->out, " -%c", o->letter);
    }
}

static const char *kind_name(enum completion completion)
{
    switch (completion) {
    case COMPLETE_NOTHING: return "nothing";
    case COMPLETE_FILE: return "file";
    case COMPLETE_URL: return "url";
    case COMPLETE_COMMAND: return "help";
    }
    return "nothing";
}

static void write_options(struct cli *cli)
{
    output_text(&cli->out, "_holdfast_options()\n{\n    echo");
    write_list(cli, global_options);
    output_text(&cli->out, "\n    case $1 in\n");
    for (const struct command *c = NULL; (c = command_next(c));) {
        if (!c->options[0].name)
            continue;
        output_print(&cli->out, "    '%s') echo", c->path);
        write_list(cli, c->options);
        output_text(&cli->out, " ;;\n");
    }
    output_text(&cli->out, "    esac\n}\n");
}

static void write_values(struct cli *cli, const char *path, const struct option_spec *options)
{
    for (const struct option_spec *o = options; o->name; o++) {
        if (!o->value)
            continue;
        output_print(&cli->out, "    %s' --%s'", path, o->name);
        if (o->letter)
            output_print(&cli->out, " | %s' -%c'", path, o->letter);
        output_print(&cli->out, ") echo %s ;;\n", kind_name(o->completion));
    }
}

/* What stands behind an option that takes a value; fails for other words. */
static void write_value_function(struct cli *cli)
{
    output_text(&cli->out, "_holdfast_value()\n{\n    case \"$1 $2\" in\n");
    write_values(cli, "*", global_options);
    for (const struct command *c = NULL; (c = command_next(c));) {
        struct buffer path = BUFFER_INIT(80);
        buffer_print(&path, "'%s'", c->path);
        write_values(cli, buffer_text(&path), c->options);
        buffer_release(&path);
    }
    output_text(&cli->out, "    *) return 1 ;;\n    esac\n}\n");
}

/* The next word of every command that starts with the words given. */
static void write_commands(struct cli *cli)
{
    output_text(&cli->out,
                "_holdfast_commands()\n{\n    local command\n    while read -r command; "
                "do\n        case $command in \"${1:+$1 }\"*) command=${command#\"${1:+$1 "
                "}\"}; echo \"${command%% *}\" ;; esac\n    done <<'END' | sort -u\n");
    for (const struct command *c = NULL; (c = command_next(c));)
        output_print(&cli->out, "%s\n", c->path);
    output_text(&cli->out, "END\n}\n");
}

static void write_arguments(struct cli *cli)
{
    output_text(&cli->out, "_holdfast_is_command()\n{\n    case $1 in\n");
    for (const struct command *c = NULL; (c = command_next(c));)
        output_print(&cli->out, "    '%s') ;;\n", c->path);
    output_text(&cli->out, "    *) return 1 ;;\n    esac\n}\n"
                           "_holdfast_argument()\n{\n    case $1 in\n");
    for (const struct command *c = NULL; (c = command_next(c));) {
        const char *kind = command_group_exists(view_of(c->path)) ? "commands" : "nothing";
        for (const struct argument_spec *a = c->arguments; a->name; a++)
            if (a->completion != COMPLETE_NOTHING)
                kind = kind_name(a->completion);
        output_print(&cli->out, "    '%s') echo %s ;;\n", c->path, kind);
    }
    output_text(&cli->out, "    esac\n}\n");
}

/* "dir:" of dir:PATH, "s3://" of s3://BUCKET. */
static struct view scheme_of(const char *form)
{
    struct view whole = view_of(form);
    size_t size = view_find(whole, ':') + 1;
    if (view_starts_with(view_from(whole, size), VIEW("//")))
        size += 2;
    return view_first(whole, size);
}

static void write_schemes(struct cli *cli)
{
    output_text(&cli->out, "        *) COMPREPLY=($(compgen -W '");
    for (size_t i = 0; topics[TOPIC_STORES].rows[i].term; i++)
        output_print(&cli->out, "%s%.*s", i ? " " : "",
                     VIEW_ARGS(scheme_of(topics[TOPIC_STORES].rows[i].term)));
    output_text(&cli->out, "' -- \"$cur\")) ;;\n");
}

void completion_bash(struct cli *cli)
{
    write_options(cli);
    write_value_function(cli);
    write_commands(cli);
    write_arguments(cli);
    output_text(&cli->out, script_start);
    write_schemes(cli);
    output_text(&cli->out, script_end);
}
