/* SPDX-License-Identifier: Apache-2.0 */
/* txn_worker.c: a process that moves money between the accounts of a bank, and is killed while
 * it does.
 *
 *     txn_worker open ACCOUNTS BALANCE SHARE    gives the accounts their first state
 *     txn_worker work ACCOUNTS TTL_MS SEED      moves money until it gets TERM
 *     txn_worker settle ACCOUNTS TTL_MS SHARE   reads, then acquires and releases, accounts
 *     txn_worker purge ACCOUNTS LATE_MS SHARE   sweeps everything, with this D
 *
 * SHARE is 0 to 7: the accounts whose number leaves that remainder when divided by 8, for eight
 * processes to share the work. purge is run by one process for all. The store is
 * $HOLDFAST_STORE. An account is a key. Its state is the balance, a line of padding (some
 * states are above 4 KiB and have their own bodies), and a line with a unique name for each
 * change that was ever made. A lost or doubled change is visible (tools/txn_audit.py).
 *
 * It reports everything in lines, each with one write, so the report survives a kill:
 *
 *     began                                          from here on TERM ends it normally
 *     try NAME TXN ACCOUNT:TOKEN:CHANGE:VERSION...   before the first change; TXN is - without one
 *     told NAME commit|rollback|unsure US            the result from the library
 *     saw US ACCOUNT VERSION                         a read that began at US showed this
 *     left STATUS WHERE: WHY                         a call did not succeed
 *     wrong WHY                                      an impossible observation
 *
 * US is the boot-time clock in microseconds, which all processes of a machine share. */
#include "base/prng.h"
#include "lock/client_inside.h"
#include "sweep/sweep.h"

#include <holdfast.h>

#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define STATE_MAX     ((size_t)4 * 1024 * 1024)
#define LINE_MAX_SIZE 1024
#define WAIT_MS       60000
#define ASKS_MAX      5 /* so often, when there is no answer */
#define TAKEN_MAX     4
#define BALANCE_SIZE  20 /* "+0000000000000001000", rewritten in place */
#define FILLED_EVERY  3
#define SHARES        8
#define FILLING       5000

/* The date of a server is cut to the second. */
#define SERVER_GRAIN_MS 2100

static volatile sig_atomic_t over;
static struct hf_client *client;
static struct prng dice;
static unsigned account_count;
static int64_t ttl_ms = 1000;

/* ---- Telling ------------------------------------------------------------------------- */

static _Noreturn void die(const char *what, const struct hf_error *error)
{
    fprintf(stderr, "txn_worker: %s: %s: %s\n", what, hf_status_name(error->status),
            error->why);
    exit(1);
}

static void tell(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void tell(const char *format, ...)
{
    char line[LINE_MAX_SIZE];
    va_list args;
    va_start(args, format);
    int size = vsnprintf(line, sizeof line - 1, format, args);
    va_end(args);
    if (size < 0 || size >= (int)sizeof line - 1)
        size = (int)sizeof line - 2;
    line[size++] = '\n';
    if (write(STDOUT_FILENO, line, (size_t)size) != size)
        exit(1);
}

static void tell_left(enum hf_status status, const char *where, const struct hf_error *error)
{
    tell("left %s %s: %s", hf_status_name(status), where, error->why);
}

static int64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_BOOTTIME, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* ---- Accounts ------------------------------------------------------------------------ */

/* An account that was taken. */
struct taken {
    char name[32];
    struct hf_key *key;
    uint64_t version; /* as it was read */
    char *state;
    size_t size;
    bool changes;
    int64_t change;
};

static void account_name(unsigned number, char name[32])
{
    snprintf(name, 32, "bank/%03u", number);
}

static void taken_release(struct taken *taken, size_t count)
{
    for (size_t i = 0; i < count; i++)
        hf_free(taken[i].state);
}

/* Reads an account, taken or not. */
static bool read_account(struct taken *taken)
{
    struct hf_key_info info = HF_KEY_INFO;
    struct hf_error error;
    void *data;
    int64_t begun = now_us();
    enum hf_status status =
        hf_key_get(client, taken->name, STATE_MAX, &data, &taken->size, &info, &error);
    if (status != HF_OK) {
        tell_left(status, "get", &error);
        if (status == HF_NOT_FOUND || status == HF_CORRUPT)
            tell("wrong %s cannot be read: %s", taken->name, error.why);
        return false;
    }
    tell("saw %" PRId64 " %s %" PRIu64, begun, taken->name, info.version);
    taken->state = data;
    taken->version = info.version;
    return true;
}

/* The state with one more line, and the balance that goes with it. The caller frees it. */
static char *changed_state(const struct taken *taken, const char *name, size_t *ret_size)
{
    char *state = malloc(taken->size + 128);
    char balance[BALANCE_SIZE + 1];
    if (!state)
        abort();
    memcpy(state, taken->state, taken->size);
    memcpy(balance, state, BALANCE_SIZE);
    balance[BALANCE_SIZE] = '\0';
    int64_t before = strtoll(balance, NULL, 10);
    snprintf(balance, sizeof balance, "%+020" PRId64, before + taken->change);
    memcpy(state, balance, BALANCE_SIZE);
    *ret_size = taken->size + (size_t)snprintf(state + taken->size, 128, "%s %+" PRId64 "\n",
                                               name, taken->change);
    return state;
}

/* Writes the change into an account that we hold. Nobody else can have changed it since. */
static enum hf_status change_account(struct taken *taken, const char *name)
{
    struct hf_key_if when = { .struct_size = sizeof when,
                              .version_set = true,
                              .version = taken->version };
    struct hf_error error;
    size_t size;
    char *state = changed_state(taken, name, &size);
    enum hf_status status = hf_key_update(taken->key, state, size, &when, NULL, &error);
    if (status != HF_OK)
        tell_left(status, "update", &error);
    if (status == HF_CONFLICT)
        tell("wrong %s was changed while we held it: %s", taken->name, error.why);
    free(state);
    return status;
}

/* Says what is going to be tried; all keys are held. */
static void tell_try(const char *name, const char *txn, const struct taken *taken, size_t count)
{
    char line[LINE_MAX_SIZE];
    size_t size = 0;
    for (size_t i = 0; i < count; i++)
        if (taken[i].changes)
            size += (size_t)snprintf(line + size, sizeof line - size,
                                     " %s:%" PRIu64 ":%+" PRId64 ":%" PRIu64, taken[i].name,
                                     hf_lock_token(hf_key_lock(taken[i].key)), taken[i].change,
                                     taken[i].version + 1);
    tell("try %s %s%s", name, txn, line);
}

static void tell_told(const char *name, const char *what)
{
    tell("told %s %s %" PRId64, name, what, now_us());
}

/* ---- Transactions -------------------------------------------------------------------- */

/* Draws accounts, each once. */
static void draw_accounts(struct taken *taken, size_t count)
{
    unsigned numbers[TAKEN_MAX];
    for (size_t i = 0; i < count; i++) {
        bool again = true;
        while (again) {
            numbers[i] = (unsigned)prng_below(&dice, account_count);
            again = false;
            for (size_t j = 0; j < i; j++)
                again = again || numbers[j] == numbers[i];
        }
        taken[i] = (struct taken){ .key = NULL };
        account_name(numbers[i], taken[i].name);
    }
}

/* From the first to the next one or two; the last of four is only looked at. */
static void draw_amounts(struct taken *taken, size_t count)
{
    for (size_t i = 1; i < count && i < 3; i++) {
        int64_t amount = 1 + (int64_t)prng_below(&dice, 100);
        taken[i].changes = taken[0].changes = true;
        taken[i].change = amount;
        taken[0].change -= amount;
    }
}

/* Asks until there is an answer, and says which it was. */
static void decide(struct hf_txn *txn, const char *name, bool commit)
{
    enum hf_decision decision = HF_ROLLBACK;
    struct hf_error error;
    enum hf_status status = HF_UNSURE;
    for (int i = 0; i < ASKS_MAX && status == HF_UNSURE; i++) {
        status = commit ? hf_txn_commit(txn, &decision, &error)
                        : hf_txn_rollback(txn, &decision, &error);
        if (status != HF_OK)
            tell_left(status, commit ? "commit" : "rollback", &error);
    }
    if (status == HF_OK)
        decision = commit ? HF_COMMIT : HF_ROLLBACK;
    if (status == HF_OK || status == HF_MISMATCH)
        tell_told(name, decision == HF_COMMIT ? "commit" : "rollback");
    else if (commit && (status == HF_EXPIRED || status == HF_LOST))
        tell_told(name, "rollback");
    else
        tell_told(name, "unsure");
}

static bool take_all(struct hf_txn *txn, struct taken *taken, size_t count)
{
    struct hf_key_options options = HF_KEY_OPTIONS;
    const char *names[TAKEN_MAX];
    struct hf_key *keys[TAKEN_MAX];
    struct hf_error error;
    options.ttl_ms = ttl_ms;
    for (size_t i = 0; i < count; i++)
        names[i] = taken[i].name;
    enum hf_status status = hf_txn_acquire(txn, names, count, &options, WAIT_MS, keys, &error);
    if (status != HF_OK) {
        tell_left(status, "take", &error);
        return false;
    }
    for (size_t i = 0; i < count; i++)
        taken[i].key = keys[i];
    return true;
}

static void transfer(const char *name, size_t count, bool commit)
{
    struct taken taken[TAKEN_MAX];
    struct hf_txn *txn;
    struct hf_error error;
    enum hf_status status = hf_txn_begin(client, NULL, &txn, &error);
    if (status != HF_OK) {
        tell_left(status, "begin", &error);
        return;
    }
    draw_accounts(taken, count);
    draw_amounts(taken, count);
    bool good = take_all(txn, taken, count);
    for (size_t i = 0; i < count && good; i++)
        good = read_account(&taken[i]);
    if (good) {
        tell_try(name, hf_txn_id(txn), taken, count);
        for (size_t i = 0; i < count && status == HF_OK; i++)
            if (taken[i].changes)
                status = change_account(&taken[i], name);
        decide(txn, name, commit && status == HF_OK);
    }
    hf_txn_free(txn);
    taken_release(taken, count);
}

/* ---- One key at a time --------------------------------------------------------------- */

/* What a change that is published at once came to, and the end of its lease. */
static void tell_published(struct taken *taken, const char *name, enum hf_status status)
{
    struct hf_error error;
    tell_told(name, status == HF_OK ? "commit" : status == HF_UNSURE ? "unsure" : "rollback");
    status = hf_key_release(taken->key, HF_COMMIT, &error);
    if (status != HF_OK)
        tell_left(status, "release", &error);
}

/* What a staged change came to: the end of its lease decides. */
static void tell_released(struct taken *taken, const char *name, enum hf_status status)
{
    struct hf_error error;
    bool commit = status == HF_OK && prng_chance(&dice, 700000);
    status = hf_key_release(taken->key, commit ? HF_COMMIT : HF_ROLLBACK, &error);
    if (status != HF_OK)
        tell_left(status, "release, staged", &error);
    bool certain = status == HF_OK || status == HF_LOST || status == HF_EXPIRED || !commit;
    tell_told(name, status == HF_OK && commit ? "commit" : certain ? "rollback" : "unsure");
}

/* A line in one account that moves nothing. */
static void annotate(const char *name, bool staged)
{
    struct hf_key_options options = HF_KEY_OPTIONS;
    struct taken taken;
    struct hf_error error;
    options.ttl_ms = ttl_ms;
    options.staged = staged;
    draw_accounts(&taken, 1);
    taken.changes = true;
    enum hf_status status = hf_key_new(client, taken.name, &options, &taken.key, &error);
    if (status != HF_OK)
        die("new", &error);
    status = hf_key_acquire(taken.key, WAIT_MS, NULL, &error);
    if (status != HF_OK)
        tell_left(status, "acquire", &error);
    if (status == HF_OK && read_account(&taken)) {
        tell_try(name, "-", &taken, 1);
        status = change_account(&taken, name);
        if (staged)
            tell_released(&taken, name, status);
        else
            tell_published(&taken, name, status);
    }
    hf_key_free(taken.key);
    taken_release(&taken, 1);
}

/* ---- The ways to run ----------------------------------------------------------------- */

static void open_account(struct hf_key *key, unsigned number, int64_t balance)
{
    char state[BALANCE_SIZE + FILLING + 2];
    struct hf_error error;
    int size = snprintf(state, sizeof state, "%+020" PRId64 "\n", balance);
    size_t filling = number % FILLED_EVERY == 0 ? FILLING : 0;
    memset(state + size, '.', filling);
    state[(size_t)size + filling] = '\n';
    if (hf_key_acquire(key, 0, NULL, &error) != HF_OK ||
        hf_key_update(key, state, (size_t)size + filling + 1, NULL, NULL, &error) != HF_OK ||
        hf_key_release(key, HF_COMMIT, &error) != HF_OK)
        die("open", &error);
}

static void open_accounts(int64_t balance, unsigned share)
{
    struct hf_error error;
    char name[32];
    for (unsigned i = share; i < account_count; i += SHARES) {
        struct hf_key *key;
        account_name(i, name);
        if (hf_key_new(client, name, NULL, &key, &error) != HF_OK)
            die("new", &error);
        open_account(key, i, balance);
        hf_key_free(key);
    }
}

static void work(uint64_t seed)
{
    dice = prng_seeded(seed);
    tell("began");
    for (unsigned number = 1; !over; number++) {
        char name[32];
        snprintf(name, sizeof name, "w%" PRIu64 ".%u", seed, number);
        switch (prng_below(&dice, 10)) {
        case 0: annotate(name, /* staged */ false); break;
        case 1: annotate(name, /* staged */ true); break;
        case 2: transfer(name, 2, /* commit */ false); break;
        case 3: transfer(name, 3, /* commit */ true); break;
        case 4: transfer(name, 4, /* commit */ true); break;
        default: transfer(name, 2, /* commit */ true);
        }
    }
}

/* Whoever wants a key settles what the dead have left there. */
static void settle(unsigned share)
{
    struct hf_key_options options = HF_KEY_OPTIONS;
    struct hf_error error;
    options.ttl_ms = WAIT_MS; /* nobody is killed here: a busy machine must not lose it */
    for (unsigned i = share; i < account_count; i += SHARES) {
        struct taken taken = { .key = NULL };
        account_name(i, taken.name);
        if (!read_account(&taken) ||
            hf_key_new(client, taken.name, &options, &taken.key, &error) != HF_OK)
            exit(1);
        if (hf_key_acquire(taken.key, WAIT_MS, NULL, &error) != HF_OK ||
            hf_key_release(taken.key, HF_COMMIT, &error) != HF_OK)
            die("settle", &error);
        hf_key_free(taken.key);
        taken_release(&taken, 1);
    }
}

/* Twice: what is undecided is rolled back, what is decided goes, each when D has passed. The last
 * worker has ended some seconds before. */
static void purge(int64_t late_ms, bool by_server)
{
    struct sweep_options options = { .settings = SWEEP_SETTINGS,
                                     .mode = SWEEP_MANUAL,
                                     .full = true };
    struct hf_error error;
    options.settings.op_delay = SPAN_US(0);
    options.settings.ops_max = SWEEP_OPS_MAX;
    options.settings.runtime_max = SPAN_S(300);
    client->space.settings.late_bound = SPAN_MS(late_ms);
    for (int i = 0; i < 2; i++) {
        struct sweep_cursor cursor = { .raised_hour = 0 };
        struct sweep_report report;
        env_sleep(client->env,
                  SPAN_MS(2 * late_ms + (by_server && i > 0 ? SERVER_GRAIN_MS : 0)));
        if (sweep_run(client, &options, &cursor, &report, &error) != HF_OK)
            die("purge", &error);
        tell("purged %" PRIu64 " rolled back %" PRIu64 " failed %" PRIu64 " stop %s",
             report.markers_deleted, report.rolled_back, report.failed,
             hf_sweep_stop_name(report.stop));
    }
}

static void stop(int number)
{
    (void)number;
    over = 1;
}

static int64_t number_of(const char *word)
{
    char *end;
    long long number = strtoll(word, &end, 10);
    if (*word == '\0' || *end != '\0' || number < 0) {
        fprintf(stderr, "txn_worker: %s is no number\n", word);
        exit(2);
    }
    return number;
}

int main(int count, char **words)
{
    struct hf_client_options options = HF_CLIENT_OPTIONS;
    struct hf_error error;
    const char *url = getenv("HOLDFAST_STORE");
    const char *way = count == 5 ? words[1] : "";
    bool opens = strcmp(way, "open") == 0, works = strcmp(way, "work") == 0;
    bool settles = strcmp(way, "settle") == 0, purges = strcmp(way, "purge") == 0;
    if (!url || !(opens || works || settles || purges)) {
        fprintf(stderr, "usage: HOLDFAST_STORE=URL txn_worker open|work|settle|purge ACCOUNTS "
                        "BALANCE|TTL_MS|LATE_MS SHARE|SEED\n");
        return 2;
    }
    account_count = (unsigned)number_of(words[2]);
    int64_t number = number_of(words[3]), last = number_of(words[4]);
    if (account_count < TAKEN_MAX || account_count > 1000 || (!works && last >= SHARES))
        return 2;
    signal(SIGTERM, stop);
    if (purges)
        options.skew_tolerance_ms = 0; /* one store, one clock */
    if (hf_client_open(url, &options, &client, &error) != HF_OK)
        die("open", &error);
    ttl_ms = number;
    if (opens)
        open_accounts(number, (unsigned)last);
    else if (works)
        work((uint64_t)last);
    else if (settles)
        settle((unsigned)last);
    else
        purge(number, /* by_server */ strncmp(url, "s3:", 3) == 0);
    hf_client_close(client);
    return 0;
}
