/* index.c: the rows of the commands about indexes. */
#include "cli/index.h"

#define NAME_ARGUMENT                                            \
    {                                                            \
        "NAME", ARGUMENT_ONE, COMPLETE_INDEX, "the index's name" \
    }

#define FORMAT_OPTION(usual)                                                    \
    {                                                                           \
        .name = "format", .type = OPTION_TEXT, .value = "FORMAT",               \
        .values = "usv csv tsv ndjson",                                         \
        .summary = "usv, csv, tsv or ndjson; csv and tsv with a header; " usual \
    }

#define SHARD_OPTION                                             \
    {                                                            \
        .name = "shard", .type = OPTION_TEXT, .value = "DIGITS", \
        .summary = "only this shard, as in a3"                   \
    }

#define PLAIN_WORDS                                                                        \
    "A line has the fields with tabs between them; control characters and backslashes in " \
    "them "                                                                                \
    "are written \\n, \\t, \\\\ or \\xHH. --format has forms that programs read back exactly."

const struct command index_commands[] = {
    {
        .path = "index create",
        .summary = "make an index, or add fields to one",
        .arguments = { NAME_ARGUMENT },
        .options = { { .name = "fields",
                       .type = OPTION_TEXT,
                       .needed = true,
                       .value = "A,B,C",
                       .summary = "the names of the fields of its records, in order" },
                     { .name = "key",
                       .type = OPTION_TEXT,
                       .needed = true,
                       .value = "FIELD",
                       .summary = "the field by which records are found" },
                     { .name = "time",
                       .type = OPTION_TEXT,
                       .needed = true,
                       .value = "FIELD",
                       .summary = "the field that says when: of each key the latest record "
                                  "counts" },
                     { .name = "digits",
                       .type = OPTION_COUNT,
                       .value = "N",
                       .summary = "cut into 16, 256, 4096 or 65536 shards by 1 to 4 digits of "
                                  "a hash; 2 if left out and it is new; never changes" },
                     { .name = "no-foreign",
                       .summary = "take no entries that other programs write into the store "
                                  "by themselves; saves a request here and there" } },
        .details = { "An index keeps the latest record of each key. Any number of writers put "
                     "records, each a small object in an inbox; any number of workers compile "
                     "inboxes into shards; readers see both at any time, and wait for neither.",
                     "Made once: again with the same fields is fine. With more fields behind "
                     "those it has, it is extended: older records have them empty. Fields are "
                     "never taken away, moved or renamed. Options that are left out are as in "
                     "the index that is there." },
        .json = "one JSON object with made (created, extended or unchanged), the version and "
                "the number of fields and shards",
        .examples = { { "holdfast index create hosts --fields host,seen --key host --time seen",
                        "the latest of each host" },
                      { "holdfast index create hosts --fields host,seen,owner --key host "
                        "--time seen",
                        "one more field for an index that is there" } },
        .run = run_index_create,
    },
    {
        .path = "index put",
        .summary = "put a record, or all rows of a file",
        .arguments = { NAME_ARGUMENT,
                       { "FIELD=VALUE", ARGUMENT_ANY, COMPLETE_NOTHING,
                         "fields of one record; those left out are empty, and the time is "
                         "now" } },
        .options = { { .name = "from",
                       .type = OPTION_TEXT,
                       .value = "FILE",
                       .completion = COMPLETE_FILE,
                       .summary = "put all rows of this file; - is stdin" },
                     FORMAT_OPTION("if left out, as the name of the file ends"),
                     { .name = "fold",
                       .summary = "put them straight into shards, under their locks: faster "
                                  "for large files; those of shards that get fewer than 8 at "
                                  "once go by the inbox" },
                     { .name = "wait",
                       .type = OPTION_WAIT,
                       .value = "SPAN",
                       .summary = "with --fold: wait so long for a shard that somebody "
                                  "compiles, then use its inbox; 1m if left out" } },
        .details = { "A record that was put is durable, and every reader sees it from then on. "
                     "To put it again does no harm. When a record with a later time is there "
                     "already, that one stays.",
                     "csv and tsv have a header that names the fields, in any order, and tsv "
                     "is csv with tabs: quotes as in csv; ndjson has an object a line with "
                     "fields by name; usv has them by position, with 0x1F between them and a "
                     "newline or 0x1E behind a record. Fields that are not mentioned are "
                     "empty; one that the index has not is refused.",
                     "A row that cannot be a record, or is longer than 1 MiB, is told with its "
                     "line and left out; the others are put, and the command ends as INVALID. "
                     "The first ten are told, and how many there were. Records of a shard that "
                     "is damaged stay in its inbox; that is told at the end.",
                     "Times are RFC 3339 with a zone, or seconds, milli-, micro- or "
                     "nanoseconds since 1970, told apart by their size." },
        .json = "one JSON object with how many records were put, how many rows refused, and "
                "up to which line",
        .examples = { { "holdfast index put domains domain=example.com owner=ada",
                        "one record, as of now" },
                      { "holdfast index put domains domain=example.com owner=joe "
                        "updated_at=2026-02-06T10:00:00Z",
                        "one with a time of its own" },
                      { "holdfast index put domains --from domains.csv", "all rows of a file" },
                      { "holdfast index export domains | holdfast index put domains --from - "
                        "--format usv --fold",
                        "a large load, straight into the shards" } },
        .ends_in_order = true,
        .run = run_index_put,
    },
    {
        .path = "index get",
        .summary = "show the record of a key",
        .arguments = { NAME_ARGUMENT,
                       { "KEY", ARGUMENT_MANY, COMPLETE_NOTHING, "what to look for" } },
        .options = { FORMAT_OPTION("for people if left out") },
        .details = { "Looks into the inbox, then into the shard, of which it reads a small "
                     "part. A key that is not there is NOT_FOUND; the others are shown all the "
                     "same.",
                     PLAIN_WORDS },
        .json = "JSON lines, one a record, with its fields by name",
        .examples = { { "holdfast index get domains example.com", "one record" },
                      { "holdfast index get domains example.com example.org --json",
                        "two, for a script" } },
        .only_reads = true,
        .run = run_index_get,
    },
    {
        .path = "index query",
        .summary = "show the records that meet conditions",
        .arguments = { NAME_ARGUMENT },
        .options = { { .name = "prefix",
                       .type = OPTION_TEXT,
                       .value = "TEXT",
                       .summary = "only keys that start with this" },
                     { .name = "since",
                       .type = OPTION_TEXT,
                       .value = "TIME",
                       .summary = "only records of this time or later: RFC 3339 with a zone, "
                                  "or a number since 1970" },
                     { .name = "where",
                       .type = OPTION_TEXT,
                       .many = true,
                       .value = "CONDITION",
                       .summary = "only records with FIELD=VALUE, or with FIELD!=VALUE; may be "
                                  "given many times: all must be met" },
                     { .name = "limit",
                       .letter = 'n',
                       .type = OPTION_COUNT,
                       .value = "N",
                       .summary = "at most so many records" },
                     SHARD_OPTION,
                     FORMAT_OPTION("for people if left out") },
        .details = { "Records come shard by shard, within a shard in the order of their keys. "
                     "All shards are read, but of each only where keys with the prefix can be; "
                     "nothing is held in memory but what is read at the time.",
                     "--where compares text, byte by byte; --since compares times, however "
                     "they are written.",
                     "A shard that is damaged is told, and the others are shown all the same.",
                     PLAIN_WORDS },
        .json = "JSON lines, one a record, with its fields by name",
        .examples = { { "holdfast index query domains --prefix example.",
                        "all keys that start so" },
                      { "holdfast index query domains --where owner=ada --where "
                        "domain!=example.com",
                        "by the values of fields" },
                      { "holdfast index query domains --since 2026-02-06T00:00:00Z --json",
                        "what is new, for a script" },
                      { "holdfast index query domains --limit 10 --format csv",
                        "a look at it" } },
        .only_reads = true,
        .run = run_index_query,
    },
    {
        .path = "index export",
        .summary = "write all records to a file or to stdout",
        .arguments = { NAME_ARGUMENT },
        .options = { { .name = "output",
                       .letter = 'o',
                       .type = OPTION_TEXT,
                       .value = "FILE",
                       .completion = COMPLETE_FILE,
                       .summary = "write to this file; it has its name only when it is whole" },
                     FORMAT_OPTION("if left out, as the name of the file ends, or else usv") },
        .details = { "Every key once, with its latest record, whether it is compiled yet or "
                     "not. 'index put --from' reads each of these formats back, to the same "
                     "records." },
        .json = "with --output one JSON object with how many records; without it JSON lines, "
                "one a record",
        .examples = { { "holdfast index export domains > all.usv", "as it is stored" },
                      { "holdfast index export domains -o all.csv", "for a spreadsheet" } },
        .only_reads = true,
        .run = run_index_export,
    },
    {
        .path = "index count",
        .summary = "tell how many keys there are",
        .arguments = { NAME_ARGUMENT },
        .details = { "Exact: of shards without entries in the inbox only the first line is "
                     "read, the others are read through. 'index status' has what was counted "
                     "last, at no cost." },
        .json = "one JSON object with records",
        .examples = { { "holdfast index count domains", "how many there are" } },
        .only_reads = true,
        .run = run_index_count,
    },
    {
        .path = "index compile",
        .summary = "fold the inbox into shards",
        .arguments = { NAME_ARGUMENT },
        .options = { { .name = "once",
                       .choice = 1,
                       .summary = "all shards that have entries, once; so it is if left out" },
                     { .name = "watch",
                       .choice = 1,
                       .summary = "go on until stopped, with a line for each shard" },
                     SHARD_OPTION,
                     { .name = "ttl",
                       .type = OPTION_SPAN,
                       .value = "SPAN",
                       .summary =
                           "of the lock on a shard, which is renewed; a dead worker's is "
                           "taken over after this; 1m if left out" },
                     { .name = "wait",
                       .type = OPTION_WAIT,
                       .value = "SPAN",
                       .summary = "with --once: go on so long with shards that others hold, "
                                  "who may be dead; 1m30s if left out" },
                     { .name = "poll",
                       .type = OPTION_SPAN,
                       .value = "SPAN",
                       .summary = "with --watch: look this often when there is nothing to do; "
                                  "by the kind of store if left out" } },
        .details = { "Any number of workers may compile, on any machine, at any time. Each "
                     "takes "
                     "a shard that nobody else has, likelier one with more entries, folds its "
                     "entries into it, and clears them away once they are known to be there. "
                     "Reading does not need it; it makes reading cheap.",
                     "What cannot be read is set aside, with the reason, and the rest goes on: "
                     "'index status' tells. A shard that is damaged stops itself alone.",
                     "Stopped by Ctrl-C, it gives its lock back and leaves nothing half "
                     "done." },
        .json = "JSON lines, one an event: shard, trouble, and at last done with totals",
        .examples = { { "holdfast index compile domains", "all that waits" },
                      { "timeout 1 holdfast index compile domains --watch || true",
                        "go on until stopped" },
                      { "holdfast index compile domains --shard a3 --json",
                        "one shard, with events for a script" } },
        .ends_in_order = true,
        .run = run_index_compile,
    },
    {
        .path = "index status",
        .summary = "show how an index is: what waits, its shards and workers",
        .arguments = { NAME_ARGUMENT },
        .details = { "How many entries wait and since when, by the store's clock; how large "
                     "the "
                     "shards are; who compiles which; what was set aside, and why the first of "
                     "them were. Looks only." },
        .json = "one JSON object with schema, inbox, shards, records, holders, aside and "
                "reasons",
        .examples = { { "holdfast index status domains", "how it is" },
                      { "holdfast index status domains --json | grep -q '\"entries\":'",
                        "for a script" } },
        .only_reads = true,
        .run = run_index_status,
    },
    { .path = NULL },
};
