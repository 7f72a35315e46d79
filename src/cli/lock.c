/* lock.c: the rows of the commands about locks. */
#include "cli/lock.h"

#define LEASE_ARGUMENT                                                        \
    {                                                                         \
        "LEASE", ARGUMENT_OPTIONAL, COMPLETE_NOTHING,                         \
            "as acquire printed it; - for stdin; $HOLDFAST_LEASE if left out" \
    }
#define PREFIX_ARGUMENT                                                              \
    {                                                                                \
        "PREFIX", ARGUMENT_OPTIONAL, COMPLETE_LOCK,                                  \
            "only scopes that start with this: a name, or path:/srv/, range:7:, ..." \
    }

const struct command lock_commands[] = {
    {
        .path = "acquire",
        .summary = "take a lock and print its lease, for others to renew and release",
        .arguments = { { "SCOPE", ARGUMENT_MANY, COMPLETE_LOCK,
                         "what to lock: a name, or path:/a/b, tree:/a, inode:7, "
                         "range:7:0-4096, chunk:KEY, pin:KEY, shard:INDEX/a3; many are held "
                         "all or "
                         "none" } },
        .options = { TTL_OPTION,
                     MAX_TTL_OPTION,
                     WAIT_OPTIONS,
                     { .name = "mode",
                       .type = OPTION_TEXT,
                       .choice = 2,
                       .value = "MODE",
                       .values = "exclusive shared",
                       .summary = "shared, with others that are shared, or exclusive" },
                     { .name = "slots",
                       .type = OPTION_COUNT,
                       .choice = 2,
                       .value = "N",
                       .summary = "up to N may hold it at a time; all must say the same N" },
                     ONCE_PER_OPTIONS("ALREADY if one that was acquired within this time was "
                                      "released with --complete"),
                     { .name = "holder",
                       .type = OPTION_TEXT,
                       .value = "TEXT",
                       .summary = "what others see; your name and host if left out" },
                     { .name = "note",
                       .type = OPTION_TEXT,
                       .value = "JSON",
                       .summary = "a value to stand beside the lease" },
                     NS_OPTION },
        .details = { "Prints the lease as one word. Nobody renews it: it is over after its "
                     "ttl unless you do (holdfast renew). For a command that is to run under "
                     "a lock, holdfast run does all of this, and ends the command when the "
                     "lock is lost.",
                     "Among those who wait and are in each other's way, order is kept. Ctrl-C "
                     "leaves the line. If the lease cannot be printed it is given back.",
                     "A lease is a name, not a password: it is of no use without access to the "
                     "store, and whoever has that finds it there (locks show). With access, "
                     "whoever knows it can renew it, end it and write as its holder. Arguments "
                     "of a program are seen by every user of the machine, so commands also "
                     "take it from $HOLDFAST_LEASE, or from stdin for -." },
        .json = "one JSON object with lease, token, ttl_ms, expires_in_ms and scopes",
        .examples = { { "LEASE=$(holdfast acquire --ttl 1m --wait 10s nightly-import)",
                        "take a lock for a minute" },
                      { "holdfast acquire --no-wait --slots 3 gpu", "one of three slots" },
                      { "holdfast acquire path:/srv/a path:/srv/b", "two paths, or neither" } },
        .run = run_acquire,
    },
    {
        .path = "renew",
        .summary = "hold a lease for its ttl from now on",
        .arguments = { LEASE_ARGUMENT },
        .details = { "LOST when the lease is over: it ended by itself, was released or was "
                     "broken, and somebody else may hold the lock. Stop the work then. A "
                     "lease that is over is never revived." },
        .json = "one JSON object with lease, token, ttl_ms and expires_in_ms",
        .examples = { { "holdfast renew", "the lease of $HOLDFAST_LEASE" },
                      { "holdfast renew \"$HOLDFAST_LEASE\" || exit",
                        "stop a script that no longer holds its lock" } },
        .run = run_renew,
    },
    {
        .path = "release",
        .summary = "end a lease",
        .arguments = { LEASE_ARGUMENT },
        .options = { { .name = "complete",
                       .choice = 1,
                       .summary = "the work is done: --once-per will find it" },
                     { .name = "fail",
                       .choice = 1,
                       .summary = "the work was given up, which `locks show` tells" },
                     { .name = "note",
                       .type = OPTION_TEXT,
                       .value = "JSON",
                       .summary = "a value to keep with that" } },
        .details = { "LOST when it was over already: then the work may have overlapped with "
                     "somebody else's." },
        .json = "one JSON object with the token that was released",
        .examples = { { "holdfast release", "the lease of $HOLDFAST_LEASE" },
                      { "echo \"$HOLDFAST_LEASE\" | holdfast release -",
                        "the lease, where no other user sees it" },
                      { "holdfast release --complete --note '{\"rows\": 17}' "
                        "\"$HOLDFAST_LEASE\"",
                        "say that the work is done, and what came of it" } },
        .run = run_release,
    },
    {
        .path = "locks ls",
        .summary = "list who holds what",
        .arguments = { PREFIX_ARGUMENT },
        .options = { { .name = "all",
                       .letter = 'a',
                       .summary = "also those who wait, and leases that are over" },
                     NS_OPTION },
        .details = { "One line a lease: scope, mode, holder, token, for how long it is held, "
                     "when it expires unless renewed, and how many wait. Names first, then "
                     "inodes, paths, chunks and shards, in order of the tables they are in.",
                     "A lease whose holder is gone stays until somebody wants its lock. It is "
                     "`overdue` once its time is past, and `over` once that is proven, so that "
                     "anybody may take it over." },
        .json = "JSON lines, one a lease",
        .examples = { { "holdfast locks ls", "all that is held" },
                      { "holdfast locks ls --all deploy",
                        "and who waits for names that start with deploy" } },
        .only_reads = true,
        .run = run_locks_ls,
    },
    {
        .path = "locks show",
        .summary = "show one lock: who, since when, who waits, the next takeover",
        .arguments = { { "SCOPE", ARGUMENT_ONE, COMPLETE_LOCK, "the lock" } },
        .options = { NS_OPTION },
        .details = { "Takeover is the earliest moment at which somebody who begins to look now "
                     "can prove that the lease is over: by store time, when the store's clock "
                     "is past its end whatever it may be wrong by; or watched, when it has "
                     "stood unchanged for longer than its holder could use it. Who has watched "
                     "it for some time may be earlier.",
                     "Looking changes nothing. A table that is damaged is CORRUPT here; the "
                     "next acquire puts it aside, under .holdfast/kept/, and nothing is "
                     "granted "
                     "until no lease of before can be valid." },
        .json = "one JSON object",
        .examples = { { "holdfast locks show deploy", "who holds it" },
                      { "holdfast locks show --json deploy", "the same for a program" } },
        .only_reads = true,
        .run = run_locks_show,
    },
    {
        .path = "locks break",
        .summary = "take a lease away from its holder",
        .arguments = { { "SCOPE", ARGUMENT_ONE, COMPLETE_LOCK, "the lock" } },
        .options = { { .name = "reason",
                       .type = OPTION_TEXT,
                       .needed = true,
                       .value = "TEXT",
                       .summary = "why; kept in the lock's table with your name" },
                     { .name = "token",
                       .type = OPTION_COUNT,
                       .value = "N",
                       .summary = "the lease of this token, when there are several" },
                     NS_OPTION },
        .details = { "The holder may not notice until its next renewal, and goes on until "
                     "then: only its token protects what it still writes. So make sure first "
                     "that it is dead. Exactly the lease that was looked at is broken, never a "
                     "later one." },
        .json = "one JSON object about the lease that was broken",
        .examples = { { "holdfast locks break deploy --reason \"its host is gone\"",
                        "let the others go on" } },
        .run = run_locks_break,
    },
    {
        .path = "locks watch",
        .summary = "watch who holds what",
        .arguments = { PREFIX_ARGUMENT },
        .options = { { .name = "interval",
                       .type = OPTION_SPAN,
                       .value = "SPAN",
                       .summary = "look this often; 1s if left out" },
                     { .name = "for",
                       .type = OPTION_SPAN,
                       .value = "SPAN",
                       .summary = "end after this time; else Ctrl-C does" },
                     NS_OPTION },
        .details = { "On a terminal a table that is kept up to date. Elsewhere, and with "
                     "--json, a line for each change that a look finds: granted, waiting, left "
                     "(the line), overdue (its time is past), over (provably so), renewed "
                     "(after all), ended. What comes and goes between two looks is not seen." },
        .json = "JSON lines, one a change, with `event`",
        .examples = { { "holdfast locks watch --for 1s", "one second of it" },
                      { "holdfast locks watch --for 1s --json deploy > changes.json",
                        "changes for a program" } },
        .only_reads = true,
        .run = run_locks_watch,
    },
    {
        .path = "write",
        .summary = "write an object that refuses holders whose lock is lost",
        .arguments = { { "KEY", ARGUMENT_ONE, COMPLETE_OBJECT, "the object" },
                       { "FILE", ARGUMENT_ONE, COMPLETE_FILE, "what to write; - for stdin" } },
        .options = { { .name = "lock",
                       .type = OPTION_TEXT,
                       .value = "LOCK",
                       .completion = COMPLETE_LOCK,
                       .summary = "a lease (- for one on stdin), or a scope to hold while "
                                  "writing; $HOLDFAST_LEASE if left out" },
                     TTL_OPTION,
                     WAIT_OPTIONS,
                     NS_OPTION },
        .details = { "The object remembers the token that wrote it, and belongs to the lock "
                     "under which it was first written: later writers must hold that lock, or "
                     "one that covers it (a tree above a path, a range around a range, the "
                     "inode of a range), and hold it exclusively.",
                     "FENCED when a later holder has written, LOST or EXPIRED when the lease "
                     "is "
                     "over, MISMATCH when the object belongs to another lock or is not one of "
                     "these, UNSURE when it may have been written. Read it with holdfast read: "
                     "where it is kept is Holdfast's affair." },
        .json = "one JSON object with key, token and size_bytes",
        .examples = { { "holdfast write state.csv report.csv",
                        "under the lease of $HOLDFAST_LEASE" },
                      { "date | holdfast write --lock stamps last-run -",
                        "hold the lock `stamps` meanwhile" } },
        .run = run_write,
    },
    {
        .path = "read",
        .summary = "read an object that `write` wrote",
        .arguments = { { "KEY", ARGUMENT_ONE, COMPLETE_OBJECT, "the object" },
                       { "FILE", ARGUMENT_OPTIONAL, COMPLETE_FILE,
                         "where to write it; stdout if left out or -" } },
        .options = { BINARY_OPTION },
        .details = { "Needs no lock. FILE is replaced when the object is whole. MISMATCH when "
                     "the object is not one that `write` wrote." },
        .json = "one JSON object about what was written to FILE; when the object itself goes "
                "to stdout, nothing else does",
        .examples = { { "holdfast read state.csv", "to the terminal" },
                      { "holdfast read state.csv copy.csv", "into a file" } },
        .only_reads = true,
        .run = run_read,
    },
    {
        .path = "store restored",
        .summary = "make locks safe again after the store came back from a backup",
        .options = { { .name = "yes", .summary = "do it; else only tell what would be done" },
                     { .name = "ns",
                       .type = OPTION_TEXT,
                       .value = "NAME",
                       .completion = COMPLETE_NAMESPACE,
                       .summary = "a namespace that was in use, though the backup may not "
                                  "have it" } },
        .details = { "A backup does not know who was granted what since it was made. So the "
                     "token epoch of every namespace is raised, by so much that no token of "
                     "before can come again, and in every table that is there nothing is "
                     "granted until each lease of then is over: the longest ttl, an hour if "
                     "nothing else was set.",
                     "A lock whose table is not in the backup is free at once, though somebody "
                     "may still hold it. Stop all workers before, or wait for the longest ttl "
                     "before they start again." },
        .json = "JSON lines, one a namespace and one a table",
        .examples = { { "holdfast store restored", "what would be done" },
                      { "holdfast store restored --yes", "do it" } },
        .run = run_store_restored,
    },
    {
        .path = "store repair epoch",
        .summary = "rebuild a token epoch that is lost",
        .options = { { .name = "ns",
                       .type = OPTION_TEXT,
                       .value = "NAME",
                       .completion = COMPLETE_NAMESPACE,
                       .summary = "only that of this namespace (default: of all)" } },
        .details = { "The upper half of every token is the epoch of its namespace, kept in "
                     ".holdfast/epoch and in a copy. While neither can be read no new lock is "
                     "made and no damaged lock table is replaced: tokens could fall.",
                     "The epoch is written anew above every token that any lock table, key, "
                     "fenced object or shard in the store shows, which takes a read of every "
                     "object, and never lower than it is known to be. Nothing else is "
                     "changed, and workers may go on meanwhile." },
        .json = "JSON lines, one per namespace",
        .examples = { { "holdfast store repair epoch", "look at every namespace" } },
        .run = run_store_repair_epoch,
    },
    {
        .path = "clock",
        .summary = "show what is known of the store's clock",
        .details = { "Leases are judged by the store's clock, never by comparing those of two "
                     "machines. A store on the network tells its date with each reply, cut to "
                     "a second; three cheap requests show between which bounds its clock must "
                     "be, against our own. A local store goes by the boot-time clock of this "
                     "machine, which is known exactly." },
        .json = "one JSON object",
        .examples = { { "holdfast clock", "the clock of the default store" } },
        .only_reads = true,
        .run = run_clock,
    },
    { .path = NULL },
};
