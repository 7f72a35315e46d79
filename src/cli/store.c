/* store.c: the rows of the commands `store ...`: objects of a store, seen and moved by hand. */
#include "cli/store.h"

#define HEX_OPTION                                                                             \
    {                                                                                          \
        .name = "hex",                                                                         \
        .summary = "keys are given in hexadecimal, for those that a command line cannot carry" \
    }

#define FORCE_OPTION                                                                          \
    {                                                                                         \
        .name = "force", .summary = "also what is Holdfast's own: lock tables, catalogs, ..." \
    }

const struct command store_commands[] = {
    {
        .path = "store ls",
        .summary = "list objects",
        .arguments = { { "PREFIX", ARGUMENT_OPTIONAL, COMPLETE_OBJECT,
                         "only keys that start with this; all if left out" } },
        .options = { { .name = "long",
                       .letter = 'l',
                       .summary = "with size, time of the last write (UTC) and ETag" },
                     { .name = "recursive",
                       .letter = 'r',
                       .choice = 1,
                       .summary = "every key, not rolled up" },
                     { .name = "delimiter",
                       .type = OPTION_TEXT,
                       .choice = 1,
                       .value = "C",
                       .summary = "roll up behind this byte instead of /" },
                     { .name = "limit",
                       .letter = 'n',
                       .type = OPTION_COUNT,
                       .value = "N",
                       .summary = "stop after this many" },
                     { .name = "after",
                       .type = OPTION_TEXT,
                       .value = "NAME",
                       .summary = "only names behind this one, in byte order" },
                     { .name = "null",
                       .letter = '0',
                       .summary = "end each name with a NUL byte, not a newline, and escape "
                                  "nothing" },
                     HEX_OPTION },
        .details = { "Lists in byte order of the keys. Keys with a / behind the prefix are "
                     "rolled up into one name that ends with it, like folders; --recursive "
                     "shows each key.",
                     "Sizes are written like 1.5 MiB on a terminal, else in bytes." },
        .json =
            "JSON lines, with key, size_bytes, etag and modified_at, or with prefix alone for "
            "what is rolled up",
        .examples = { { "holdfast store ls", "what is at the top of the store" },
                      { "holdfast store ls --long reports/", "the objects below reports/" },
                      { "holdfast store ls -r --null reports/ | xargs -0 holdfast store rm --",
                        "remove them all" } },
        .only_reads = true,
        .run = run_store_ls,
    },
    {
        .path = "store get",
        .summary = "read an object",
        .arguments = { { "KEY", ARGUMENT_ONE, COMPLETE_OBJECT, "the object" },
                       { "FILE", ARGUMENT_OPTIONAL, COMPLETE_FILE,
                         "where to write it; stdout if left out or -" } },
        .options = { { .name = "range",
                       .type = OPTION_TEXT,
                       .value = "A-B",
                       .summary = "only bytes A up to, not including, B; A- is to the end; "
                                  "sizes like 64KiB are fine" },
                     BINARY_OPTION,
                     HEX_OPTION },
        .details = { "FILE is written under a temporary name beside its own and renamed when "
                     "it is whole and on disk, so there is never half a file; what was there "
                     "before is replaced. Nothing goes to stdout before the whole object has "
                     "come." },
        .json = "one JSON object about what was written to FILE; when the object itself "
                "goes to stdout, nothing else does",
        .examples = { { "holdfast store get reports/today.csv today.csv", "into a file" },
                      { "holdfast store get reports/today.csv | wc -l", "into a pipe" },
                      { "holdfast store get --range 0-16 reports/today.csv",
                        "the first 16 bytes" } },
        .only_reads = true,
        .run = run_store_get,
    },
    {
        .path = "store put",
        .summary = "write an object",
        .arguments = { { "KEY", ARGUMENT_ONE, COMPLETE_OBJECT, "the object" },
                       { "FILE", ARGUMENT_ONE, COMPLETE_FILE, "what to write; - is stdin" } },
        .options = { { .name = "if-absent",
                       .choice = 1,
                       .summary = "only if there is no such object yet, else CONFLICT" },
                     { .name = "if-match",
                       .type = OPTION_TEXT,
                       .choice = 1,
                       .value = "ETAG",
                       .summary = "only if the object still has this ETag, else CONFLICT, or "
                                  "NOT_FOUND if it is gone" },
                     FORCE_OPTION,
                     HEX_OPTION },
        .details = { "Prints the ETag of what was written. Without a condition an object that "
                     "exists is replaced. A key of one of Holdfast's own objects (a lock "
                     "table, a catalog, a chunk, ...) is refused without --force.",
                     "UNSURE means that the write may have happened, or may still: look, and "
                     "then write again with a condition." },
        .json = "one JSON object with key, etag and size_bytes",
        .examples = { { "holdfast store put reports/new.csv report.csv", "from a file" },
                      { "date | holdfast store put --if-absent started -",
                        "only the first one wins" },
                      { "holdfast store put --if-match \"$ETAG\" reports/today.csv report.csv",
                        "only if nobody else has written since" } },
        .run = run_store_put,
    },
    {
        .path = "store rm",
        .summary = "remove objects",
        .arguments = { { "KEY", ARGUMENT_MANY, COMPLETE_OBJECT, "the objects" } },
        .options = { { .name = "if-match",
                       .type = OPTION_TEXT,
                       .value = "ETAG",
                       .summary = "only if the object, then the only one named, still has "
                                  "this ETag" },
                     FORCE_OPTION,
                     HEX_OPTION },
        .details = { "Holdfast's own objects are refused without --force, before anything is "
                     "removed: without its lock table a lock that is held is free.",
                     "Removing what is not there is a success, since not every store can "
                     "tell. If some objects could not be removed, each is named, the others "
                     "are gone, and the exit status is that of the first." },
        .json = "JSON lines, one for each key that is gone",
        .examples = { { "holdfast store rm reports/old.csv", "remove one object" },
                      { "holdfast store rm --if-match \"$ETAG\" reports/today.csv",
                        "only if nobody else has written since" } },
        .run = run_store_rm,
    },
    {
        .path = "store cp",
        .summary = "copy objects within a store or between two",
        .arguments = { { "SOURCE", ARGUMENT_OPTIONAL, COMPLETE_OBJECT,
                         "the object, or with -r what the keys start with (all if left out)" },
                       { "TARGET", ARGUMENT_OPTIONAL, COMPLETE_OBJECT,
                         "its new key, or with -r what takes the place of SOURCE; the same if "
                         "left out" } },
        .options = { { .name = "from",
                       .type = OPTION_TEXT,
                       .value = "URL",
                       .completion = COMPLETE_URL,
                       .summary = "the store to read, instead of --store" },
                     { .name = "to",
                       .type = OPTION_TEXT,
                       .value = "URL",
                       .completion = COMPLETE_URL,
                       .summary = "the store to write, instead of --store" },
                     { .name = "recursive",
                       .letter = 'r',
                       .summary = "copy every object whose key starts with SOURCE" },
                     { .name = "if-absent",
                       .summary =
                           "replace nothing: an object that is there with other bytes is a "
                           "CONFLICT" },
                     FORCE_OPTION,
                     HEX_OPTION },
        .details = { "Each copy is read back from the target and compared by size and CRC32C "
                     "with what was read from the source; if they differ it is CORRUPT. "
                     "Copies that are there already with equal bytes are left alone, so a "
                     "copy that was stopped goes on when the same command is given again.",
                     "None of Holdfast's own objects is replaced without --force; with "
                     "--recursive they are copied to where there are none, as a backup is.",
                     "Objects that vanish from the source meanwhile are left out. The first "
                     "error ends the command; what was copied until then stays." },
        .json = "JSON lines, one for each object and a last one with the counts",
        .examples = { { "holdfast store cp reports/today.csv reports/copy.csv",
                        "within the store" },
                      { "holdfast store cp -r --to dir:backup reports/",
                        "the reports into a folder, under the same names" },
                      { "holdfast store cp -r --to sqlite:all.db \"\" mirror/",
                        "everything, under mirror/" } },
        .run = run_store_cp,
    },
    {
        .path = "store probe",
        .summary = "find out whether a store keeps the promises that locks are built on",
        .options = { { .name = "no-save",
                       .summary = "do not keep the findings in the store for others" } },
        .details = { "Some stores accept conditional writes and ignore the conditions; a lock "
                     "on such a store protects nothing. The probe tries it out on scratch "
                     "objects, which it removes, and keeps what it found in "
                     ".holdfast/format.json, for 30 days. A store that cannot be used is "
                     "UNSUPPORTED, with a sentence that says what failed; this too is kept, "
                     "for a "
                     "day, and refuses every command but those of this group.",
                     "A store on the network is probed by the first command that needs to "
                     "know, so "
                     "this is for looking, and to try a store again." },
        .json = "one JSON object with all findings",
        .examples = { { "holdfast store probe", "try the default store" },
                      { "holdfast store probe --store dir:objects", "try a folder" } },
        .run = run_store_probe,
    },
    { .path = NULL },
};
