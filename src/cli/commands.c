/* commands.c: the table of commands as a whole, and what belongs to the program rather than to
 * one command. */
#include "cli/cli.h"

const struct command_group command_groups[] = {
    { "Locks", run_commands },
    { "Locks by hand", lock_commands },
    { "Keys and transactions", key_commands },
    { "Objects", store_commands },
    { "Merging", merge_commands },
    { "Compaction", compact_commands },
    { "Indexes", index_commands },
    { "Election", elect_commands },
    { "Sweeping", sweep_commands },
    { "About holdfast", basic_commands },
    { NULL, NULL },
};

const struct option_spec global_options[] = {
    { .name = "store",
      .type = OPTION_TEXT,
      .value = "URL",
      .completion = COMPLETE_URL,
      .summary = "the store to work on, instead of $HOLDFAST_STORE or the default one" },
    { .name = "json", .summary = "write JSON to stdout, and errors as JSON objects to stderr" },
    { .name = "quiet",
      .letter = 'q',
      .summary = "write only data and errors: no progress, no ETag, no summary" },
    { .name = "trace",
      .summary =
          "write a line to stderr for each request to a store; with --json a JSON object" },
    { .name = "help",
      .letter = 'h',
      .summary = "show the help of the command, and do nothing" },
    { .name = "version", .summary = "show the version, and do nothing" },
    { .name = NULL },
};

const struct example welcome_examples[] = {
    { "echo hello | holdfast store put greeting -", "put an object" },
    { "holdfast store ls --long", "see it" },
    { "holdfast store get greeting", "read it back" },
    { NULL, NULL },
};

const struct topic topics[] = {
    [TOPIC_STORES] = { "Stores",
                       "A store is named by a URL. Options follow it as "
                       "?name=value&name=value; a question mark or percent sign in a path is "
                       "written %3F or %25. A path may be relative, or begin with ~/ for your "
                       "home folder. Without --store and $HOLDFAST_STORE it is sqlite: in your "
                       "state folder, which you share with nobody. Commands that only read "
                       "make no store.",
                       { { "dir:PATH", "plain files under a folder, which a person can read; "
                                       "?sync=off gives up durability for speed" },
                         { "sqlite:FILE", "one SQLite file, large objects as files beside it; "
                                          "the fastest durable local store; ?sync=off as "
                                          "above; sqlite: alone is the default file" },
                         { "s3://BUCKET/PREFIX", "a bucket of AWS or of what speaks its "
                                                 "language; for others than AWS "
                                                 "?endpoint=URL&region=NAME" },
                         { "mem:",
                           "in memory, gone when the program ends; for trying things" } } },
    { "Output",
      "What a command prints is for people. With --json it is one JSON object, "
      "or JSON lines (one object a line), as the help of each command says, and as a schema "
      "of each describes it in docs/json of the source. Members are named by what they are: "
      "`..._at` is a time (RFC 3339), `..._ms` a span in milliseconds, `..._bytes` a size; "
      "checksums are hexadecimal.",
      { { "errors",
          "With --json an error is an object on stderr with `status`, `outcome` (what "
          "exactly was refused), `why` and `command`; when somebody holds what was "
          "asked for also with `holder`, `scope`, `expires_in_ms`, "
          "`retry_after_ms` and `leased`, which lists all of it." },
        { "keys", "On a terminal, control bytes, backslashes and bytes that are not UTF-8 "
                  "are written \\n, \\t, \\\\ or \\xHH; elsewhere keys are written as they "
                  "are. In JSON, a key that is not UTF-8 stands as `key_hex`, in "
                  "hexadecimal, instead of `key`; --hex reads that form." },
        { "progress",
          "On a terminal, transfers of more than a second show how far they are." } } },
    { "Environment",
      NULL,
      { { "HOLDFAST_STORE",
          "the store's URL when there is no --store; must not be empty. run sets "
          "it for its command, with an absolute path" },
        { "HOLDFAST_TOKEN", "set by run for its command: the fencing token of its lock" },
        { "HOLDFAST_ALLOW_EXEC", "programs that a bucket's command may run in workers, as "
                                 "--allow-exec, separated by ':'" },
        { "HOLDFAST_LEASE",
          "set by run for its command: the lease, for other commands; a name of "
          "what is held, of no use without access to the store" },
        { "NO_COLOR", "no bold titles on a terminal, if set to anything" },
        { "XDG_STATE_HOME", "where the default store is: in holdfast/ under it, else under "
                            "~/.local/state" },
        { "TMPDIR", "where bytes wait on their way from and to pipes and between stores, in "
                    "files without a name; /tmp if not set" } } },
    { NULL, NULL, { { NULL, NULL } } },
};

const struct command *command_next(const struct command *last)
{
    if (!last)
        return command_groups[0].commands;
    if (last[1].path)
        return last + 1;
    for (const struct command_group *group = command_groups; group->title; group++)
        for (const struct command *c = group->commands; c->path; c++)
            if (c == last)
                return group[1].commands;
    return NULL;
}

const struct command_alias command_aliases[] = {
    { "key describe", "key show" },
    { "key keepalive", "key renew" },
    { "key remove", "key rm" },
    { "key status", "key show" },
    { "keepalive", "renew" },
    { "locks describe", "locks show" },
    { "locks status", "locks show" },
    { "store remove", "store rm" },
    { "txn describe", "txn show" },
    { "txn status", "txn show" },
    { "compact describe", "compact status" },
    { "compact show", "compact status" },
    { "index describe", "index status" },
    { "index show", "index status" },
    { "sweep show", "sweep status" },
    { NULL, NULL },
};

const struct command *command_find(struct view path)
{
    for (const struct command_alias *a = command_aliases; a->path; a++)
        if (view_equal(view_of(a->path), path))
            path = view_of(a->target);
    for (const struct command *c = NULL; (c = command_next(c));)
        if (view_equal(view_of(c->path), path))
            return c;
    return NULL;
}

bool command_group_exists(struct view path)
{
    for (const struct command *c = NULL; (c = command_next(c));)
        if (view_starts_with(view_of(c->path), path) && c->path[path.size] == ' ')
            return true;
    return false;
}
