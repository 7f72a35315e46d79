/* key.c: the rows of the commands about keys and transactions. */
#include "cli/key.h"
#include "base/layout.h"

#define KEY_ARGUMENT                                                                    \
    {                                                                                   \
        "NAME", ARGUMENT_ONE, COMPLETE_LOCK,                                            \
            "the key: a-z 0-9 . _ - in segments between slashes, as the name of a lock" \
    }
#define KEY_NS_OPTION                                                                         \
    {                                                                                         \
        .name = "ns", .type = OPTION_TEXT, .value = "NAME", .completion = COMPLETE_NAMESPACE, \
        .summary = "the namespace of the key; 'default' if left out"                          \
    }
#define KEY_LEASE_OPTION                                                                 \
    {                                                                                    \
        .name = "lease", .type = OPTION_TEXT, .value = "LEASE",                          \
        .summary = "as acquire has printed it; - for stdin; $HOLDFAST_LEASE if left out" \
    }
#define CHANGE_OPTIONS                                                                     \
    { .name = "lease",                                                                     \
      .type = OPTION_TEXT,                                                                 \
      .choice = 2,                                                                         \
      .value = "LEASE",                                                                    \
      .summary = "as acquire has printed it; - for stdin; $HOLDFAST_LEASE if left out" },  \
        { .name = "take",                                                                  \
          .choice = 2,                                                                     \
          .summary = "take the key meanwhile, and give it back" },                         \
        TTL_OPTION, WAIT_OPTIONS,                                                          \
        { .name = "if-version",                                                            \
          .type = OPTION_COUNT,                                                            \
          .value = "N",                                                                    \
          .summary = "only if the key has this version; 0: only if it holds nothing" },    \
        { .name = "if-etag",                                                               \
          .type = OPTION_TEXT,                                                             \
          .value = "ETAG",                                                                 \
          .summary = "only if the key has this ETag" },                                    \
        { .name = "txn",                                                                   \
          .type = OPTION_TEXT,                                                             \
          .value = "ID",                                                                   \
          .completion = COMPLETE_TXN,                                                      \
          .summary = "the transaction that the key was taken for: nobody sees the change " \
                     "before that is committed" },                                         \
        { .name = "staged",                                                                \
          .summary = "nobody sees the change before the key is released, and nobody ever " \
                     "when it is released with --rollback, or the lease is over before" }, \
        KEY_NS_OPTION
#define TXN_ARGUMENT                                                         \
    {                                                                        \
        "ID", ARGUMENT_ONE, COMPLETE_TXN, "the transaction, as begin prints" \
    }
#define OUTCOME_WORDS                                                                     \
    "Refusals are told apart by --json as `outcome`: lease_required, lease_expired, "     \
    "fencing_mismatch (somebody else was granted the key since), version_conflict, "      \
    "etag_mismatch, txn_mismatch (the key is taken for another transaction than the one " \
    "named, or for none), waiting. None of them changes anything."

const struct command key_commands[] = {
    {
        .path = "key acquire",
        .summary = "take a key and print its lease, which lets you change its state",
        .arguments = { KEY_ARGUMENT },
        .options = { TTL_OPTION,
                     MAX_TTL_OPTION,
                     WAIT_OPTIONS,
                     { .name = "txn",
                       .type = OPTION_TEXT,
                       .value = "ID",
                       .completion = COMPLETE_TXN,
                       .summary =
                           "take it for this transaction: locked until that is decided" },
                     { .name = "holder",
                       .type = OPTION_TEXT,
                       .value = "TEXT",
                       .summary = "what others see; your name and host if left out" },
                     KEY_NS_OPTION },
        .details = { "A key is a name with a lock and a state: bytes of any size, with a "
                     "version and an ETag. Whoever holds the lock may change the state; a "
                     "change that comes after the lease was taken over is refused by the "
                     "store itself. Anybody may read.",
                     "Prints the lease as one word. Nobody renews it: it is over after its ttl "
                     "unless you do (holdfast key renew). Ctrl-C leaves the line.",
                     "In a transaction take keys in the order of their names: one that is out "
                     "of order is taken only if it is free at once, so that two transactions "
                     "never wait for each other." },
        .json = "one JSON object with lease, token, ttl_ms, expires_in_ms, key, version, etag, "
                "size_bytes, removed and txn",
        .examples = { { "LEASE=$(holdfast key acquire --ttl 1m orders/7)", "for a minute" },
                      { "TXN=$(holdfast txn begin); holdfast key acquire --txn $TXN orders/8",
                        "for a transaction" } },
        .run = run_key_acquire,
    },
    {
        .path = "key renew",
        .summary = "hold the lease of a key for its ttl from now on",
        .options = { KEY_LEASE_OPTION },
        .details = { "LOST when the lease is over. Keys of a transaction are kept alive one by "
                     "one, each by its own lease." },
        .json = "one JSON object with key, lease, token, ttl_ms and expires_in_ms",
        .examples = { { "holdfast key renew", "the lease of $HOLDFAST_LEASE" } },
        .run = run_key_keepalive,
    },
    {
        .path = "key get",
        .summary = "read the state of a key",
        .arguments = { KEY_ARGUMENT },
        .options = { { .name = "output",
                       .letter = 'o',
                       .type = OPTION_TEXT,
                       .choice = 1,
                       .value = "FILE",
                       .completion = COMPLETE_FILE,
                       .summary = "write it there; stdout if left out or -" },
                     { .name = "info",
                       .choice = 1,
                       .summary = "tell version, size and ETag, and not the state" },
                     BINARY_OPTION,
                     KEY_NS_OPTION },
        .details = { "Needs no lease, and waits for nobody. What a transaction or a holder has "
                     "staged is not seen before it is committed; then it is, all at once for "
                     "each key. NOT_FOUND when the key holds nothing. FILE is replaced when "
                     "the state has come whole." },
        .json = "one JSON object about what was written to FILE, or with --info; when the "
                "state itself goes to stdout, nothing else does",
        .examples = { { "holdfast key get orders/42", "to the terminal" },
                      { "holdfast key get orders/42 -o order.json --json",
                        "into a file, and what it is" },
                      { "holdfast key get orders/42 --info", "version, size, ETag" } },
        .only_reads = true,
        .run = run_key_get,
    },
    {
        .path = "key update",
        .summary = "change the state of a key",
        .arguments = { KEY_ARGUMENT },
        .options = { { .name = "from",
                       .type = OPTION_TEXT,
                       .value = "FILE",
                       .completion = COMPLETE_FILE,
                       .summary = "what the key is to hold; stdin if left out or -" },
                     CHANGE_OPTIONS },
        .details = { "All of the input is read first. Then one write checks the lease and the "
                     "conditions and publishes, at once or not at all; states above 4 KiB are "
                     "put before it, as objects of their own.",
                     OUTCOME_WORDS },
        .json = "one JSON object with key, version, etag, size_bytes, removed, txn and staged",
        .examples = { { "date | holdfast key update stamps --take", "take it meanwhile" },
                      { "holdfast key update deploy --from report.csv",
                        "under the lease of $HOLDFAST_LEASE" },
                      { "echo paid | holdfast key update orders/42 --take --if-version 1",
                        "only if nobody has changed it since" } },
        .run = run_key_update,
    },
    {
        .path = "key rm",
        .summary = "delete a key's value",
        .arguments = { KEY_ARGUMENT },
        .options = { CHANGE_OPTIONS },
        .details = { "That is a version of its own: numbers only rise, and --if-version 0 "
                     "holds "
                     "again.",
                     OUTCOME_WORDS },
        .json = "one JSON object with key, version, etag, size_bytes, removed, txn and staged",
        .examples = { { "holdfast key rm orders/42 --take", "take it meanwhile" } },
        .run = run_key_remove,
    },
    {
        .path = "key show",
        .summary = "show a key: its version, who holds it, which transaction has it",
        .arguments = { KEY_ARGUMENT },
        .options = { KEY_NS_OPTION },
        .details = { "What is over is cleared away on the way, as by any operation. 'holdfast "
                     "locks show NAME' tells more of its lease." },
        .json = "one JSON object",
        .examples = { { "holdfast key show orders/42", "for people" },
                      { "holdfast key show orders/42 --json", "for a program" } },
        .only_reads = true,
        .run = run_key_describe,
    },
    {
        .path = "key release",
        .summary = "give a key back, and publish what is staged",
        .options = { KEY_LEASE_OPTION,
                     { .name = "rollback",
                       .summary = "drop what is staged instead; what was published stays" } },
        .details = { "What is staged is published, or dropped, in the same write that ends the "
                     "lease. A key of a transaction decides all of that: 'txn commit' and 'txn "
                     "rollback' are the plainer words. LOST when the lease was over already; "
                     "then nothing staged was published." },
        .json = "one JSON object with key, token, decision, and whether it was a transaction",
        .examples = { { "holdfast key release", "the lease of $HOLDFAST_LEASE" },
                      { "holdfast key release --rollback --lease $HOLDFAST_LEASE",
                        "and drop what is staged" } },
        .run = run_key_release,
    },
    {
        .path = "key ls",
        .summary = "list keys that hold something, or are held",
        .arguments = { { "PREFIX", ARGUMENT_OPTIONAL, COMPLETE_LOCK,
                         "only keys that start with this" } },
        .options = { KEY_NS_OPTION },
        .details = { "Names are those of locks, too: one that is held is listed even if it was "
                     "never written. Removed keys are listed until they are purged." },
        .json = "JSON lines, one a key",
        .examples = { { "holdfast key ls", "all" },
                      { "holdfast key ls orders/ --json", "some, for a program" } },
        .only_reads = true,
        .run = run_key_ls,
    },
    {
        .path = "txn begin",
        .summary = "begin a transaction and print its id",
        .options = { { .name = "holder",
                       .type = OPTION_TEXT,
                       .value = "TEXT",
                       .summary = "what others see; your name and host if left out" } },
        .details = { "Changes of many keys, all or none: take keys with 'key acquire --txn', "
                     "change them with 'key update --txn', then 'txn commit'. Nobody sees a "
                     "change before that, and all of them after it. Any process that knows "
                     "the id may take part, and decide.",
                     "When the lease of one of its keys is over before it is committed, the "
                     "next who wants that key rolls it back." },
        .json = "one JSON object with txn and state",
        .examples = { { "TXN=$(holdfast txn begin)", "to be used with --txn $TXN" } },
        .run = run_txn_begin,
    },
    {
        .path = "txn show",
        .summary = "show a transaction: pending or how it was decided, and its keys",
        .arguments = { TXN_ARGUMENT },
        .details = { "A record is purged a day after it was decided. One that is not there "
                     "means: rolled back, never begun, or settled long ago." },
        .json = "one JSON object with txn, state, holder, keys, began_at, decided_at, applied",
        .examples = { { "holdfast txn show $(holdfast txn begin)",
                        "one that has just begun" } },
        .only_reads = true,
        .run = run_txn_show,
    },
    {
        .path = "txn commit",
        .summary = "commit a transaction: all its changes are seen from now on",
        .arguments = { TXN_ARGUMENT },
        .details = { "One write decides. Every key that was taken for it must still be held, "
                     "each under a lease that is not over: else it is rolled back. MISMATCH "
                     "when it is or was rolled back. To commit again what is committed is "
                     "fine. UNSURE: ask again." },
        .json = "one JSON object with txn and state; an error has the recorded decision, if "
                "there is one, as outcome",
        .examples = { { "holdfast txn commit $(holdfast txn begin)", "an empty one" } },
        .run = run_txn_commit,
    },
    {
        .path = "txn rollback",
        .summary = "roll a transaction back: nothing of it was ever seen",
        .arguments = { TXN_ARGUMENT },
        .options = { { .name = "damaged",
                       .summary = "also if its record cannot be read, which is kept aside" } },
        .details = { "MISMATCH when it was committed before. To roll back again what is rolled "
                     "back is fine.",
                     "A record that was damaged from outside does not tell whether it was "
                     "committed, and its keys stay as they are: look at its bytes first "
                     "('store get " LAYOUT_TXN_FOLDER
                     "ID'). With --damaged they are kept under " LAYOUT_KEPT_FOLDER
                     ", and a rollback stands in their place: keys that were "
                     "settled already stay so, all others are as they were before it." },
        .json = "one JSON object with txn and state; an error has the recorded decision, if "
                "there is one, as outcome",
        .examples = { { "holdfast txn rollback $(holdfast txn begin)", "an empty one" } },
        .run = run_txn_rollback,
    },
    {
        .path = "txn ls",
        .summary = "list transactions",
        .options = { { .name = "state",
                       .type = OPTION_TEXT,
                       .value = "STATE",
                       .values = "pending commit rollback",
                       .summary = "only those that are pending, commit or rollback" } },
        .details = { "Those of all namespaces, also of programs that use the library, until a "
                     "day after they were decided." },
        .json = "JSON lines, one a transaction, as txn show has it",
        .examples = { { "holdfast txn ls", "all" },
                      { "holdfast txn ls --state pending --json", "what is undecided" } },
        .only_reads = true,
        .run = run_txn_ls,
    },
    { .path = NULL },
};
