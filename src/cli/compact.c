/* compact.c: the rows of the commands about compaction. */
#include "cli/compact.h"

#define PARTITION_OPTION                                             \
    {                                                                \
        .name = "partition", .type = OPTION_TEXT, .value = "NAME",   \
        .completion = COMPLETE_PARTITION,                            \
        .summary = "the partition to work on; 'default' if left out" \
    }

#define SCRATCH_OPTION                                                                       \
    {                                                                                        \
        .name = "scratch", .type = OPTION_TEXT, .value = "DIR", .completion = COMPLETE_FILE, \
        .summary = "a folder on a local disk for files on their way; $TMPDIR if left out"    \
    }

/* HOLDFAST_ALLOW_EXEC means the same, for services. */
#define ALLOW_EXEC_OPTION                                                                 \
    {                                                                                     \
        .name = "allow-exec", .type = OPTION_TEXT, .many = true, .value = "PATH",         \
        .completion = COMPLETE_FILE,                                                      \
        .summary =                                                                        \
            "let the bucket's command run this program here, with any arguments; may be " \
            "given many times, and adds to $HOLDFAST_ALLOW_EXEC"                          \
    }

/* What create and set have in common. */
#define SETTINGS_OPTIONS                                                                      \
    { .name = "key",                                                                          \
      .type = OPTION_TEXT,                                                                    \
      .value = "FIELD",                                                                       \
      .summary = "merge by this field: its number from 1, or its name" },                     \
        { .name = "time",                                                                     \
          .type = OPTION_TEXT,                                                                \
          .value = "FIELD",                                                                   \
          .summary = "when a record is of; with --key only the latest of each key is kept" }, \
        { .name = "no-header", .summary = "csv, tsv: the first record is data" },             \
        { .name = "compress",                                                                 \
          .type = OPTION_TEXT,                                                                \
          .value = "HOW",                                                                     \
          .values = "none gzip zstd",                                                         \
          .summary = "what is merged: none, gzip or zstd" },                                  \
        { .name = "command",                                                                  \
          .type = OPTION_TEXT,                                                                \
          .value = "LINE",                                                                    \
          .summary = "merge by this command, with {inputs} and {output} in it" },             \
        { .name = "time-limit",                                                               \
          .type = OPTION_SPAN,                                                                \
          .value = "SPAN",                                                                    \
          .summary = "kill the command after this time; 1h if left out" },                    \
        { .name = "max-rejects",                                                              \
          .type = OPTION_LIMIT,                                                               \
          .value = "N|any",                                                                   \
          .summary = "records that cannot be read which a file may have; ingest refuses one " \
                     "with more, and one of nothing else (default: 0)" },                     \
        { .name = "policy",                                                                   \
          .type = OPTION_TEXT,                                                                \
          .value = "POLICY",                                                                  \
          .values = "levels cascade",                                                         \
          .summary = "levels (level 0 by hour and count, higher ones to a size), or cascade " \
                     "(all below a level at once, as a counter carries)" },                   \
        { .name = "level0-count",                                                             \
          .type = OPTION_COUNT,                                                               \
          .value = "N",                                                                       \
          .summary = "levels: so many chunks of one hour are merged; 15 if left out" },       \
        { .name = "level1-size",                                                              \
          .type = OPTION_SIZE,                                                                \
          .value = "SIZE",                                                                    \
          .summary = "levels: chunks of level 1 are merged once they come to this; 2GiB if "  \
                     "left out" },                                                            \
        { .name = "level-factor",                                                             \
          .type = OPTION_COUNT,                                                               \
          .value = "N",                                                                       \
          .summary = "levels: each next level to so many times more; 5 if left out" },        \
        { .name = "cascade-base",                                                             \
          .type = OPTION_COUNT,                                                               \
          .value = "N",                                                                       \
          .summary = "cascade: so many chunks carry; 20 if left out" },                       \
        { .name = "group-max",                                                                \
          .type = OPTION_COUNT,                                                               \
          .value = "N",                                                                       \
          .summary = "most chunks of one merge; 256 if left out" },                           \
        { .name = "ttl",                                                                      \
          .type = OPTION_SPAN,                                                                \
          .value = "SPAN",                                                                    \
          .summary = "of the lease of a merge, which is renewed; a dead worker's is taken "   \
                     "over after this; 1m if left out" },                                     \
        { .name = "grace",                                                                    \
          .type = OPTION_SPAN,                                                                \
          .value = "SPAN",                                                                    \
          .summary = "keep chunks that were merged for this long; 15m if left out" },         \
        { .name = "late-bound",                                                               \
          .type = OPTION_SPAN,                                                                \
          .value = "SPAN",                                                                    \
          .summary = "a request that was given up on lands no later than this; 1d if left "   \
                     "out" },                                                                 \
        { .name = "skew",                                                                     \
          .type = OPTION_SPAN,                                                                \
          .value = "SPAN",                                                                    \
          .summary = "by so much the store's clocks may differ; 30s if left out" },           \
        { .name = "retention",                                                                \
          .type = OPTION_SPAN,                                                                \
          .value = "SPAN",                                                                    \
          .summary = "chunks whose newest record is older expire; never if left out or 0" },  \
        { .name = "backlog",                                                                  \
          .type = OPTION_COUNT,                                                               \
          .value = "N",                                                                       \
          .summary = "ingest waits while so many chunks of level 0 do; 3000 if left out" },   \
        { .name = "tries",                                                                    \
          .type = OPTION_COUNT,                                                               \
          .value = "N",                                                                       \
          .summary = "after so many failures a chunk is quarantined; 3 if left out" },        \
        { .name = "step",                                                                     \
          .type = OPTION_SPAN,                                                                \
          .value = "SPAN",                                                                    \
          .summary =                                                                          \
              "each worker in line for a group starts this much later; 1s if left out" },     \
        PARTITION_OPTION

/* What run and watch have in common. */
#define WORKER_OPTIONS                                                                  \
    { .name = "force",                                                                  \
      .summary = "merge all that can be, below any threshold, whoever's turn it is" },  \
        { .name = "jobs",                                                               \
          .letter = 'j',                                                                \
          .type = OPTION_COUNT,                                                         \
          .value = "N",                                                                 \
          .summary = "so many merges at once; one a processor, up to 4, if left out" }, \
        { .name = "memory",                                                             \
          .type = OPTION_SIZE,                                                          \
          .value = "SIZE",                                                              \
          .summary = "of all merges together; 256MiB if left out" },                    \
        SCRATCH_OPTION,                                                                 \
        { .name = "threads",                                                            \
          .type = OPTION_COUNT,                                                         \
          .value = "N",                                                                 \
          .summary = "of each merge; one a processor, up to 4, if left out" },          \
        ALLOW_EXEC_OPTION,                                                              \
        { .name = "limit-memory",                                                       \
          .type = OPTION_SIZE,                                                          \
          .value = "SIZE",                                                              \
          .summary = "address space of each process of the bucket's command "           \
                     "(default: 8GiB)" },                                               \
        { .name = "limit-cpu",                                                          \
          .type = OPTION_SPAN,                                                          \
          .value = "SPAN",                                                              \
          .summary = "processor time of each of its processes (default: 1h)" },         \
        { .name = "limit-file",                                                         \
          .type = OPTION_SIZE,                                                          \
          .value = "SIZE",                                                              \
          .summary = "size of each file that they write (default: 64GiB)" },            \
        PARTITION_OPTION

#define EVENTS_JSON                                                                            \
    "JSON lines, one an event: planned, started, ended, tended, paused, trouble, and at last " \
    "done; with totals"

#define KEY_ARGUMENT                                                                 \
    {                                                                                \
        "KEY", ARGUMENT_ONE, COMPLETE_NOTHING, "the chunk, as 'compact ls' shows it" \
    }

const struct command compact_commands[] = {
    {
        .path = "compact create",
        .summary = "make a partition of chunks that are to be compacted",
        .options = { { .name = "format",
                       .type = OPTION_TEXT,
                       .needed = true,
                       .value = "FORMAT",
                       .values = "usv csv tsv ndjson concat exec",
                       .summary = "of the chunks: usv, csv, tsv, ndjson, concat or exec" },
                     SETTINGS_OPTIONS },
        .details = { "A partition is a catalog of chunks, kept in the store, with the settings "
                     "by which all workers go. Made once; again with the same settings is "
                     "fine, "
                     "with others CONFLICT.",
                     "--format, --key, --time and --no-header mean what they do for merge, and "
                     "cannot change once there are chunks. With --command a program of yours "
                     "merges; workers run it only if they allow that program by "
                     "--allow-exec." },
        .json = "one JSON object with the partition and its settings",
        .examples = { { "holdfast compact create --partition logs --format usv --key 1 --time "
                        "3",
                        "keep the latest record of each key" },
                      { "holdfast compact create --partition raw --format csv --time at "
                        "--retention 30d",
                        "records in order of time, for 30 days" } },
        .run = run_compact_create,
    },
    {
        .path = "compact set",
        .summary = "change how a partition is compacted",
        .options = { { .name = "format",
                       .type = OPTION_TEXT,
                       .value = "FORMAT",
                       .values = "usv csv tsv ndjson concat exec",
                       .summary = "of the chunks: usv, csv, tsv, ndjson, concat or exec" },
                     SETTINGS_OPTIONS },
        .details = { "What is not named stays as it is. Workers go by it with their next "
                     "plan." },
        .json = "one JSON object with the partition and its settings",
        .examples = { { "holdfast compact set --grace 1h --retention 90d",
                        "keep merged chunks for an hour, and data for 90 days" } },
        .run = run_compact_set,
    },
    {
        .path = "compact ingest",
        .summary = "put files into a partition, as chunks of level 0",
        .arguments = { { "FILE", ARGUMENT_MANY, COMPLETE_FILE,
                         "files of the partition's format; plain or compressed" } },
        .options = { { .name = "writer",
                       .type = OPTION_TEXT,
                       .value = "NAME",
                       .summary = "where they come from; the host's name if left out" },
                     { .name = "id",
                       .type = OPTION_TEXT,
                       .value = "NAME",
                       .summary = "identify the file by NAME (default: by its bytes)" },
                     { .name = "wait",
                       .type = OPTION_WAIT,
                       .value = "SPAN",
                       .summary = "while too many chunks wait to be merged, wait for so long; "
                                  "1m if left out" },
                     PARTITION_OPTION },
        .details = { "Each file is looked through, put under a name of its own, and many are "
                     "added to the catalog in one write. One that cannot be read, is empty, or "
                     "has more rows that cannot be read than the partition allows "
                     "(--max-rejects of create and set) is told and left, and so is one with "
                     "times without a zone; the rest goes on.",
                     "A file that the partition has already is not added again, and counts as "
                     "success: after an interruption, run the same command again. Two files "
                     "are "
                     "the same if their bytes are (compared by SHA-256). Where equal files are "
                     "meant to count twice, give each its own --id NAME: then only a file "
                     "of the same NAME is the same file, whatever its bytes. A file is "
                     "remembered until its chunk was merged or expired, and the grace period "
                     "and the late bound have passed since (15m and 24h by default)." },
        .json = "JSON lines, one per file that was taken or was already there; those that were "
                "not are errors",
        .examples = { { "holdfast compact ingest part-*.usv", "two files" },
                      { "holdfast compact ingest --id host7/0915 part-1.usv",
                        "one file, which may have the same bytes as another" } },
        .ends_in_order = true,
        .run = run_compact_ingest,
    },
    {
        .path = "compact plan",
        .summary = "show what run would do now, and how many requests that takes",
        .options = { { .name = "force",
                       .summary = "as run --force would: all that can be merged" },
                     ALLOW_EXEC_OPTION,
                     PARTITION_OPTION },
        .details = { "A line for each group of chunks that would be merged into one, then the "
                     "sums. Requests are those of one worker, with --jobs 1, when nobody else "
                     "is at work and nothing is to be cleared away; the first run ever "
                     "takes a few more." },
        .json = "one JSON object with the sums, and the groups as `plan`",
        .examples = { { "holdfast compact plan", "what is due" },
                      { "holdfast compact plan --force --json",
                        "what could be, for a script" } },
        .only_reads = true,
        .run = run_compact_plan,
    },
    {
        .path = "compact run",
        .summary = "merge what is due, then end",
        .options = { { .name = "all",
                       .letter = 'a',
                       .summary =
                           "go on until nothing is due any more, also of what the merges "
                           "make due and what others are at" },
                     WORKER_OPTIONS },
        .details = { "Any number of workers may run at once, on any machines: each group is "
                     "merged by one of them, under a lease; when that one dies another takes "
                     "over. A merge counts by one conditional write of the catalog, so never "
                     "twice and never in part. What was merged is deleted after its time of "
                     "grace, by whichever worker comes by.",
                     "A group that fails is told, and the rest goes on; a chunk that is "
                     "damaged, "
                     "fails again and again, or needs more scratch space than there is, is "
                     "quarantined. The exit status is that of the "
                     "first failure. Ctrl-C gives the leases back and ends; the second one "
                     "ends "
                     "at once.",
                     "Whoever can write to the bucket chooses the command of a partition. A "
                     "worker runs it only if --allow-exec names its program; else it merges "
                     "nothing of that partition and reports that it needs --allow-exec. The "
                     "arguments are the bucket's too: allow a program that does nothing but "
                     "merge files, not a shell or a program that can start others. It runs in "
                     "a "
                     "process group of its own, with the limits above, and sees only PATH, "
                     "HOME, LANG, LC_ALL, LC_COLLATE, LC_CTYPE, TZ and TMPDIR of the "
                     "environment." },
        .json = EVENTS_JSON,
        .examples = { { "holdfast compact run", "what is due now" },
                      { "holdfast compact run --allow-exec /usr/local/bin/merge-logs",
                        "also where the partition's command is that program" },
                      { "holdfast compact run --all --force --jobs 1 --json",
                        "everything into one chunk per catalog, with figures" } },
        .ends_in_order = true,
        .run = run_compact_run,
    },
    {
        .path = "compact watch",
        .summary = "merge what becomes due, until stopped",
        .options = { { .name = "poll",
                       .type = OPTION_SPAN,
                       .value = "SPAN",
                       .summary = "look this often when there is nothing to do; by the kind of "
                                  "store if left out" },
                     WORKER_OPTIONS },
        .details = { "A worker as a service. TERM or Ctrl-C gives its leases back and ends it, "
                     "with exit status 0; the second one ends it at once. A store that does "
                     "not "
                     "answer is told, and asked again.",
                     "A partition that is not there is told at once, and waited for: 'compact "
                     "create' makes it, on whatever machine." },
        .json = EVENTS_JSON,
        .examples = { { "timeout --preserve-status 1 holdfast compact watch",
                        "for a second" } },
        .ends_in_order = true,
        .run = run_compact_watch,
    },
    {
        .path = "compact status",
        .summary = "show how a partition is: chunks, backlog, jobs, members",
        .options = { ALLOW_EXEC_OPTION, PARTITION_OPTION },
        .details = { "Chunks by level; what is due; who merges what, since when, and for how "
                     "long without renewal; the jobs of the last hour; what is quarantined and "
                     "why; tombstones, which undelete brings back; names that are being "
                     "deleted.",
                     "A partition whose command may not run here is reported as needing "
                     "--allow-exec; name the options that its workers have." },
        .json = "one JSON object",
        .examples = { { "holdfast compact status", "at a glance" },
                      { "holdfast compact status --json", "with all settings and records" } },
        .only_reads = true,
        .run = run_compact_status,
    },
    {
        .path = "compact ls",
        .summary = "list the chunks of a partition",
        .options = { { .name = "all",
                       .letter = 'a',
                       .summary = "also what was merged, and names that are being deleted" },
                     PARTITION_OPTION },
        .details = { "A line for each chunk: level, size, rows, the time of its newest record, "
                     "and its key, by which 'store get' has it. Read what you list under a "
                     "pin, "
                     "and list after you have pinned." },
        .json = "JSON lines, one a chunk",
        .examples = { { "holdfast compact ls", "what is data" },
                      { "holdfast compact ls --all --json",
                        "all that is known, for a script" } },
        .only_reads = true,
        .run = run_compact_ls,
    },
    {
        .path = "compact pause",
        .summary = "stop workers from starting merges",
        .options = { { .name = "why",
                       .type = OPTION_TEXT,
                       .value = "TEXT",
                       .summary = "for those who look" },
                     PARTITION_OPTION },
        .details = { "Merges that are under way come to their end. Stays until resume." },
        .json = "one JSON object",
        .examples = { { "holdfast compact pause --why 'backup until noon'", "hold it" } },
        .run = run_compact_pause,
    },
    {
        .path = "compact resume",
        .summary = "let workers go on",
        .options = { PARTITION_OPTION },
        .details = { "Fine when it was not paused." },
        .json = "one JSON object",
        .examples = { { "holdfast compact resume", "go on" } },
        .run = run_compact_resume,
    },
    {
        .path = "compact fsck",
        .summary = "check that the bucket is what its catalogs say",
        .options = { { .name = "repair", .summary = "put right what can be; else only look" },
                     { .name = "shallow", .summary = "names and sizes only: read no chunk" },
                     { .name = "older-than",
                       .type = OPTION_SPAN,
                       .value = "SPAN",
                       .summary = "objects that no catalog knows are told when they are older "
                                  "than this; 1h if left out" },
                     SCRATCH_OPTION,
                     { .name = "partition",
                       .type = OPTION_TEXT,
                       .value = "NAME",
                       .completion = COMPLETE_PARTITION,
                       .summary = "this one alone; all of the bucket if left out" } },
        .details = { "Looks through all catalogs, the listing of data/, the lease tables, and "
                     "every byte of every chunk. A line for each finding; CORRUPT when any "
                     "stands as it was found.",
                     "Repairing removes nothing that could be data: a chunk that is missing or "
                     "damaged is quarantined, an object that no catalog knows is condemned, "
                     "and "
                     "deleted by the next worker." },
        .json = "JSON lines, one a finding, and an object with the sums at last",
        .examples = { { "holdfast compact fsck", "is all well?" },
                      { "holdfast compact fsck --repair --shallow", "put names right" } },
        .only_reads = true,
        .run = run_compact_fsck,
    },
    {
        .path = "compact pin",
        .summary = "keep chunks from being deleted while they are read",
        .arguments = { { "KEY", ARGUMENT_MANY, COMPLETE_NOTHING,
                         "chunks of one catalog, as 'compact ls' shows them" } },
        .options = { { .name = "ttl",
                       .type = OPTION_SPAN,
                       .value = "SPAN",
                       .summary = "for so long unless renewed; 10m if left out" },
                     PARTITION_OPTION },
        .details = { "Prints a lease, as acquire does, for renew and release. Pins stand in "
                     "nobody's way: pinned chunks are merged like others, and their objects "
                     "stay. NOT_FOUND when one is not there any more: list again." },
        .json = "one JSON object with the lease",
        .examples = { { "holdfast release \"$(holdfast compact pin \"$CHUNK\")\"",
                        "pin a chunk, and let it go" } },
        .run = run_compact_pin,
    },
    {
        .path = "compact quarantine",
        .summary = "leave a chunk out of all merges, or take it back in",
        .arguments = { KEY_ARGUMENT },
        .options = { { .name = "why",
                       .type = OPTION_TEXT,
                       .choice = 1,
                       .value = "TEXT",
                       .summary = "for those who look; your name if left out" },
                     { .name = "release",
                       .choice = 1,
                       .summary = "take it back in, its failures forgotten" },
                     PARTITION_OPTION },
        .details = { "A chunk in quarantine is data as before; it is only not merged. Workers "
                     "quarantine what is damaged or fails again and again." },
        .json = "one JSON object",
        .examples = { { "holdfast compact quarantine \"$CHUNK\" --why 'under investigation'",
                        "leave it alone" },
                      { "holdfast compact quarantine \"$CHUNK\" --release", "try again" } },
        .run = run_compact_quarantine,
    },
    {
        .path = "compact undelete",
        .summary = "undo a merge, within its time of grace",
        .arguments = { { "KEY", ARGUMENT_ONE, COMPLETE_NOTHING,
                         "a tombstone, as 'compact ls --all' shows it" } },
        .options = { PARTITION_OPTION },
        .details = { "All that was merged together with it comes back, and what it was merged "
                     "into becomes a tombstone. CONFLICT when that was merged further "
                     "already." },
        .json = "one JSON object with how many came back",
        .examples = { { "holdfast compact undelete \"$TOMBSTONE\"", "undo it" } },
        .run = run_compact_undelete,
    },
    { .path = NULL },
};
