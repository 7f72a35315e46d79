/* SPDX-License-Identifier: Apache-2.0 */
/* key_test.c KIND: the state of keys through the public header: reading, changing, and every
 * refusal. KIND is mem, sqlite, dir, or url ($HOLDFAST_TEST_URL). */
#include "key_kit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static struct hf_error error;

/* ---- Reading and writing ------------------------------------------------------------- */

static void never_written(void **state)
{
    struct pair *pair = *state;
    struct key_description description;
    struct hf_key_info info = reads(&pair->one, "k", NULL);
    ASSERT(info.version == 0 && info.etag[0] == '\0' && info.outcome == HF_KEY_NONE);
    IS(HF_NOT_FOUND, key_describe(pair->one.client, "k", &description, &error));
    struct hf_key *key = key_held(&pair->one, "k");
    reads(&pair->two, "k", NULL);
    done(key);
    reads(&pair->two, "k", NULL);
}

static void any_size(void **state)
{
    static const size_t sizes[] = { 0, 1, 4095, 4096, 4097, 65536, 65537, 1024 * 1024 };
    struct pair *pair = *state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char *bytes = bytes_of(sizes[i], (unsigned)i);
        struct hf_key *key = key_held(&pair->one, "k");
        struct hf_key_info written = HF_KEY_INFO, info = HF_KEY_INFO;
        void *data;
        size_t size;
        MUST(hf_key_update(key, bytes, sizes[i], NULL, &written, &error));
        ASSERT(written.version == i + 1 && written.size == sizes[i]);
        ASSERT(written.token == hf_lock_token(hf_key_lock(key)));
        MUST(hf_key_get(pair->two.client, "k", sizes[i], &data, &size, &info, &error));
        ASSERT(size == sizes[i] && memcmp(data, bytes, size) == 0);
        ASSERT(info.version == written.version && strcmp(info.etag, written.etag) == 0);
        ASSERT(info.token == written.token && info.updated_ms > 0 && !info.removed);
        hf_free(data);
        done(key);
        ASSERT(bodies(&pair->world, "k") == (sizes[i] > STATE_INLINE_MAX ? 1 : 0));
        ASSERT(world_times(&pair->world, DOCUMENT, "\"old\"") == 0);
        free(bytes);
    }
}

static void versions(void **state)
{
    struct pair *pair = *state;
    char seen[20][HF_KEY_ETAG_SIZE + 1];
    struct hf_key *key = key_held(&pair->one, "k");
    for (unsigned i = 0; i < 20; i++) {
        struct hf_key_info info = HF_KEY_INFO;
        MUST(hf_key_update(key, "same", 4, NULL, &info, &error));
        ASSERT(info.version == i + 1);
        memcpy(seen[i], info.etag, sizeof seen[i]);
        for (unsigned j = 0; j < i; j++)
            ASSERT(strcmp(seen[j], seen[i]) != 0);
    }
    done(key);
    struct hf_key_info info = HF_KEY_INFO;
    key = key_with(&pair->two, "k", 60000, false);
    MUST(hf_key_acquire(key, 0, &info, &error));
    ASSERT(info.version == 20 && strcmp(info.etag, seen[19]) == 0 && info.size == 4);
    done(key);
}

static void removed(void **state)
{
    struct pair *pair = *state;
    struct hf_key *key = key_held(&pair->one, "k");
    struct hf_key_info info = HF_KEY_INFO;
    update(key, "first");
    MUST(hf_key_remove(key, NULL, &info, &error));
    ASSERT(info.version == 2 && info.removed && info.etag[0] != '\0');
    info = reads(&pair->two, "k", NULL);
    ASSERT(info.version == 2 && info.removed);
    MUST(hf_key_update(key, "again", 5,
                       &(struct hf_key_if){ .struct_size = sizeof(struct hf_key_if),
                                            .version_set = true },
                       &info, &error));
    ASSERT(info.version == 3 && !info.removed);
    reads(&pair->two, "k", "again");
    done(key);
}

static void too_large_to_read(void **state)
{
    struct pair *pair = *state;
    void *data;
    size_t size;
    publish(&pair->one, "k", "12345");
    IS(HF_INVALID, hf_key_get(pair->one.client, "k", 4, &data, &size, NULL, &error));
    char *bytes = bytes_of(5000, 1);
    struct hf_key *key = key_held(&pair->one, "k");
    MUST(hf_key_update(key, bytes, 5000, NULL, NULL, &error));
    IS(HF_INVALID, hf_key_get(pair->one.client, "k", 4999, &data, &size, NULL, &error));
    free(bytes);
    done(key);
}

/* What was answered last says this. */
static void says(const char *sentence)
{
    if (strcmp(error.why, sentence) != 0)
        FAIL("'%s', expected '%s'", error.why, sentence);
}

static void bad_names(void **state)
{
    static const struct {
        const char *name, *sentence;
    } bad[] = {
        { "", "the name is empty; a name must be 1 to 128 bytes long" },
        { "Upper", "names must be lower case: use 'upper'" },
        { ".hidden", "'.hidden': names that start with a dot are reserved" },
        { "a/.b", "'a/.b': names that start with a dot are reserved" },
        { "a//b", "'a//b' has an empty segment" },
        { "/a", "'/a' has an empty segment" },
        { "a/", "'a/' has an empty segment" },
        { "a b", "a name may contain a-z, 0-9, '.', '_' and '-', with '/' between parts" },
        { "a:b", "a name may contain a-z, 0-9, '.', '_' and '-', with '/' between parts" },
    };
    struct pair *pair = *state;
    struct key_description description;
    struct hf_key *key = NULL;
    void *data;
    size_t size;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *name = bad[i].name;
        IS(HF_INVALID, hf_key_new(pair->one.client, name, NULL, &key, &error));
        says(bad[i].sentence);
        IS(HF_INVALID, hf_key_get(pair->one.client, name, 10, &data, &size, NULL, &error));
        says(bad[i].sentence);
        IS(HF_INVALID, key_describe(pair->one.client, name, &description, &error));
        says(bad[i].sentence);
    }
    char name[NAME_BYTES_MAX + 2];
    memset(name, 'n', sizeof name);
    name[NAME_BYTES_MAX + 1] = '\0';
    IS(HF_INVALID, hf_key_new(pair->one.client, name, NULL, &key, &error));
    says("the name is too long; a name must be 1 to 128 bytes long");
    ASSERT(!key);
}

/* Also the longest name has room for bodies beside its document. */
static void good_names(void **state)
{
    struct pair *pair = *state;
    char longest[NAME_BYTES_MAX + 1], *bytes = bytes_of(5000, 2);
    memset(longest, 'n', NAME_BYTES_MAX);
    longest[NAME_BYTES_MAX] = '\0';
    const char *const names[] = { "k", "orders/42", "a/b/c.json", "0-_.", longest };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct hf_key *key = key_held(&pair->one, names[i]);
        MUST(hf_key_update(key, bytes, 5000, NULL, NULL, &error));
        MUST(hf_key_update(key, bytes, 4999, NULL, NULL, &error));
        done(key);
        ASSERT(bodies(&pair->world, names[i]) == 1);
        publish(&pair->two, names[i], names[i]);
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        reads(&pair->one, names[i], names[i]);
    free(bytes);
}

static void bad_options(void **state)
{
    struct pair *pair = *state;
    struct hf_key *key = NULL;
    struct hf_key_options options = HF_KEY_OPTIONS;
    options.struct_size = 0;
    IS(HF_INVALID, hf_key_new(pair->one.client, "k", &options, &key, &error));
    says("struct_size is 0: initialise the struct with HF_KEY_OPTIONS");
    IS(HF_INVALID,
       hf_key_adopt(pair->one.client, "1:a:default/meta/k.json", &options, &key, &error));
    says("struct_size is 0: initialise the struct with HF_KEY_OPTIONS");
    options = HF_KEY_OPTIONS;
    options.ttl_ms = 1;
    IS(HF_INVALID, hf_key_new(pair->one.client, "k", &options, &key, &error));
    static const char *const leases[] = { "",
                                          "nonsense",
                                          "1:a:default/paths.json",
                                          "1:a:other/meta/k.json",
                                          "1:a:default/meta/.json",
                                          "1:a:default/meta/K.json",
                                          "1:a:default/meta/k" };
    for (size_t i = 0; i < sizeof leases / sizeof *leases; i++) {
        char sentence[HF_WHY_MAX];
        IS(HF_INVALID, hf_key_adopt(pair->one.client, leases[i], NULL, &key, &error));
        snprintf(sentence, sizeof sentence, "'%s' is not a lease of a key in namespace default",
                 leases[i]);
        says(sentence);
    }
    IS(HF_INVALID,
       hf_key_adopt(pair->one.client, "x:a:default/meta/k.json", NULL, &key, &error));
    ASSERT(!key);
    hf_key_free(NULL);
    hf_key_detach(NULL);
}

static void holds_nothing(struct peer *peer, const char *sentence)
{
    void *data;
    size_t size;
    IS(HF_NOT_FOUND, hf_key_get(peer->client, "k", 10, &data, &size, NULL, &error));
    says(sentence);
}

static void bad_arguments(void **state)
{
    struct pair *pair = *state;
    struct hf_key *key = key_with(&pair->one, "k", 60000, false);
    struct hf_key_info info = HF_KEY_INFO;
    holds_nothing(&pair->two, "the key was never written");
    IS(HF_INVALID, hf_key_acquire(key, -1, NULL, &error));
    says("wait must not be negative");
    MUST(hf_key_acquire(key, 0, &info, &error));
    IS(HF_INVALID, hf_key_acquire(key, -1, NULL, &error));
    /* The ETag of a key without a version would hold for any. */
    struct hf_key_if none = { .struct_size = sizeof none, .etag = info.etag };
    IS(HF_INVALID, hf_key_update(key, "x", 1, &none, &info, &error));
    says("the ETag must not be empty; use version 0 for a key without a value");
    ASSERT(info.outcome == HF_KEY_NONE);
    IS(HF_INVALID, hf_key_remove(key, &none, NULL, &error));
    IS(HF_INVALID, hf_key_update(key, "x", (size_t)BODY_BYTES_MAX + 1, NULL, &info, &error));
    holds_nothing(&pair->two, "the key was never written");
    MUST(hf_key_update(key, NULL, 0, NULL, NULL, &error)); /* nothing is bytes, too */
    reads(&pair->two, "k", "");
    MUST(hf_key_remove(key, NULL, NULL, &error));
    holds_nothing(&pair->two, "the key was removed");
    done(key);
}

/* ---- Files --------------------------------------------------------------------------- */

static int file_of(struct world *world, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", world->folder, name);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    return fd;
}

#define PIECE ((size_t)1024 * 1024)

static void fill_file(int fd, size_t pieces)
{
    for (size_t i = 0; i < pieces; i++) {
        char *bytes = bytes_of(PIECE, (unsigned)i * 7);
        assert_int_equal(pwrite(fd, bytes, PIECE, (off_t)(i * PIECE)), PIECE);
        free(bytes);
    }
}

static void same_files(int a, int b, size_t pieces)
{
    char *left = malloc(PIECE), *right = malloc(PIECE);
    assert_true(left && right);
    for (size_t i = 0; i < pieces; i++) {
        assert_int_equal(pread(a, left, PIECE, (off_t)(i * PIECE)), PIECE);
        assert_int_equal(pread(b, right, PIECE, (off_t)(i * PIECE)), PIECE);
        assert_memory_equal(left, right, PIECE);
    }
    assert_int_equal(pread(b, right, 1, (off_t)(pieces * PIECE)), 0);
    free(left);
    free(right);
}

/* The most memory that this process has had since the last time, in KiB; 0: nobody knows. */
static long peak_kib(void)
{
    char line[256];
    long kib = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (strncmp(line, "VmHWM:", 6) == 0)
            kib = strtol(line + 6, NULL, 10);
    if (status)
        fclose(status);
    FILE *refs = fopen("/proc/self/clear_refs", "w");
    if (refs) {
        fputs("5", refs);
        fclose(refs);
    }
    return kib;
}

static bool is_mem(const struct pair *pair)
{
    return strcmp(pair->world.url, "mem:") == 0;
}

/* A store in memory has it there, of course. */
static void large_file(void **state)
{
    struct pair *pair = *state;
    size_t pieces = is_mem(pair) ? 8 : 100;
    int from = file_of(&pair->world, "from"), to = file_of(&pair->world, "to");
    struct hf_key_info info = HF_KEY_INFO;
    fill_file(from, pieces);
    struct hf_key *key = key_held(&pair->one, "k");
    peak_kib();
    long before = peak_kib();
    MUST(hf_key_update_file(key, from, NULL, &info, &error));
    ASSERT(info.size == pieces * PIECE);
    MUST(hf_key_get_file(pair->two.client, "k", to, &info, &error));
    long peak = peak_kib();
    if (!is_mem(pair) && peak > before + 24 * 1024)
        FAIL("%ld KiB before, %ld KiB while 100 MiB were streamed", before, peak);
    same_files(from, to, pieces);
    update(key, "small again");
    done(key);
    ASSERT(bodies(&pair->world, "k") == 0);
    close(from);
    close(to);
}

static void small_file(void **state)
{
    struct pair *pair = *state;
    int from = file_of(&pair->world, "from"), to = file_of(&pair->world, "to");
    struct hf_key *key = key_held(&pair->one, "k");
    struct hf_key_info info = HF_KEY_INFO;
    MUST(hf_key_update_file(key, from, NULL, &info, &error));
    ASSERT(info.size == 0 && info.version == 1);
    assert_int_equal(pwrite(from, "bytes", 5, 0), 5);
    MUST(hf_key_update_file(key, from, NULL, &info, &error));
    ASSERT(info.size == 5);
    reads(&pair->two, "k", "bytes");
    MUST(hf_key_get_file(pair->two.client, "k", to, NULL, &error));
    char read[8];
    assert_int_equal(pread(to, read, sizeof read, 0), 5);
    IS(HF_INVALID, hf_key_get_file(pair->two.client, "k", to, NULL, &error));
    done(key);
    close(from);
    close(to);
}

/* ---- Outcomes ------------------------------------------------------------------------ */

static void lease_required(void **state)
{
    struct pair *pair = *state;
    struct hf_key *key = key_with(&pair->one, "k", 60000, false);
    refuses(key, NULL, HF_KEY_LEASE_REQUIRED, HF_DENIED);
    IS(HF_NOT_FOUND, hf_key_release(key, HF_COMMIT, &error));
    MUST(hf_key_acquire(key, 0, NULL, &error));
    update(key, "yes");
    MUST(hf_key_release(key, HF_COMMIT, &error));
    refuses(key, NULL, HF_KEY_LEASE_REQUIRED, HF_DENIED);
    hf_key_free(key);
    reads(&pair->two, "k", "yes");
}

/* A lease that is shared is no lease to change a key by. */
static void shared_is_not_enough(void **state)
{
    struct pair *pair = *state;
    struct hf_lock_options shared = HF_LOCK_OPTIONS;
    char text[HF_LEASE_TEXT_MAX];
    struct hf_key *key;
    shared.mode = HF_SHARED;
    struct hf_lock *lock = lock_with(&pair->one, "k", &shared);
    MUST(hf_lock_acquire(lock, 0, &error));
    MUST(hf_lock_text(lock, text, &error));
    MUST(hf_key_adopt(pair->two.client, text, NULL, &key, &error));
    refuses(key, NULL, HF_KEY_LEASE_REQUIRED, HF_DENIED);
    hf_key_detach(key);
    hf_lock_free(lock);
}

static void lease_expired(void **state)
{
    struct pair *pair = *state;
    struct hf_key *key = key_held(&pair->one, "k");
    update(key, "kept");
    take_away(&pair->two, key);
    refuses(key, NULL, HF_KEY_LEASE_EXPIRED, HF_EXPIRED);
    IS(HF_LOST, hf_key_release(key, HF_COMMIT, &error));
    hf_key_free(key);
    reads(&pair->two, "k", "kept");
}

static void fencing_mismatch(void **state)
{
    struct pair *pair = *state;
    char *bytes = bytes_of(5000, 3);
    struct hf_key *key = key_held(&pair->one, "k");
    struct hf_key_info info = HF_KEY_INFO;
    take_away(&pair->two, key);
    struct hf_key *other = key_held(&pair->two, "k");
    update(other, "theirs");
    refuses(key, NULL, HF_KEY_FENCING_MISMATCH, HF_FENCED);
    IS(HF_FENCED, hf_key_update(key, bytes, 5000, NULL, &info, &error));
    ASSERT(info.version == 1 && info.outcome == HF_KEY_FENCING_MISMATCH);
    IS(HF_FENCED, hf_key_remove(key, NULL, NULL, &error));
    ASSERT(bodies(&pair->world, "k") == 0);
    IS(HF_LOST, hf_key_release(key, HF_COMMIT, &error));
    hf_key_free(key);
    reads(&pair->one, "k", "theirs");
    done(other);
    free(bytes);
}

/* The handle has noticed itself; what it says does not differ. */
static void noticed_first(void **state)
{
    struct pair *pair = *state;
    struct hf_key *key = key_held(&pair->one, "k");
    take_away(&pair->two, key);
    IS(HF_LOST, hf_key_keepalive(key, &error));
    refuses(key, NULL, HF_KEY_LEASE_EXPIRED, HF_EXPIRED);
    struct hf_key *other = key_held(&pair->two, "k");
    refuses(key, NULL, HF_KEY_FENCING_MISMATCH, HF_FENCED);
    hf_key_free(key);
    done(other);
}

static void conditions(void **state)
{
    struct pair *pair = *state;
    struct hf_key *key = key_held(&pair->one, "k");
    struct hf_key_info info = HF_KEY_INFO;
    struct hf_key_if none = { .struct_size = sizeof none, .version_set = true },
                     one = { .struct_size = sizeof one, .version_set = true, .version = 1 };
    refuses(key, &one, HF_KEY_VERSION_CONFLICT, HF_CONFLICT);
    MUST(hf_key_update(key, "a", 1, &none, &info, &error));
    refuses(key, &none, HF_KEY_VERSION_CONFLICT, HF_CONFLICT);
    MUST(hf_key_update(key, "b", 1, &one, &info, &error));
    char etag[HF_KEY_ETAG_SIZE + 1];
    memcpy(etag, info.etag, sizeof etag);
    struct hf_key_if this = { .struct_size = sizeof this, .etag = etag };
    MUST(hf_key_update(key, "c", 1, &this, &info, &error));
    refuses(key, &this, HF_KEY_ETAG_MISMATCH, HF_CONFLICT);
    struct hf_key_if both = {
        .struct_size = sizeof both, .version_set = true, .version = 3, .etag = etag
    };
    refuses(key, &both, HF_KEY_ETAG_MISMATCH, HF_CONFLICT);
    both.etag = info.etag;
    struct hf_key_info removal = HF_KEY_INFO;
    MUST(hf_key_remove(key, &both, &removal, &error));
    IS(HF_CONFLICT, hf_key_remove(key, &one, &removal, &error));
    ASSERT(removal.outcome == HF_KEY_VERSION_CONFLICT && removal.version == 4);
    done(key);
}

/* The body of a change that is refused does not stay. */
static void refused_bodies(void **state)
{
    struct pair *pair = *state;
    char *bytes = bytes_of(6000, 9);
    struct hf_key *key = key_held(&pair->one, "k");
    struct hf_key_if other = { .struct_size = sizeof other, .version_set = true, .version = 7 };
    MUST(hf_key_update(key, bytes, 6000, NULL, NULL, &error));
    IS(HF_CONFLICT, hf_key_update(key, bytes, 6000, &other, NULL, &error));
    ASSERT(bodies(&pair->world, "k") == 1);
    done(key);
    ASSERT(bodies(&pair->world, "k") == 1);
    free(bytes);
}

static void txn_mismatch(void **state)
{
    struct pair *pair = *state;
    struct hf_txn *txn;
    struct hf_key *key, *without;
    const char *name = "k";
    char text[HF_LEASE_TEXT_MAX];
    MUST(hf_txn_begin(pair->one.client, NULL, &txn, &error));
    MUST(hf_txn_acquire(txn, &name, 1, NULL, 0, &key, &error));
    MUST(hf_lock_text(hf_key_lock(key), text, &error));
    MUST(hf_key_adopt(pair->two.client, text, NULL, &without, &error));
    refuses(without, NULL, HF_KEY_TXN_MISMATCH, HF_MISMATCH);
    hf_key_detach(without);
    update(key, "in it");
    struct hf_key_info info = reads(&pair->two, "k", NULL);
    ASSERT(strcmp(info.txn, hf_txn_id(txn)) == 0);
    MUST(hf_key_release(key, HF_COMMIT, &error));
    info = reads(&pair->two, "k", "in it");
    ASSERT(info.txn[0] == '\0');
    /* What it staged now would count as committed. */
    IS(HF_MISMATCH, hf_key_acquire(key, 0, &info, &error));
    ASSERT(info.outcome == HF_KEY_TXN_MISMATCH);
    refuses(key, NULL, HF_KEY_LEASE_REQUIRED, HF_DENIED);
    hf_txn_free(txn);
    reads(&pair->two, "k", "in it");
}

/* A key whose transaction is not decided is not to be had, though its lease is over: not before
 * that is rolled back. */
static void taken_for_another(void **state)
{
    struct pair *pair = *state;
    struct hf_txn *txn;
    struct hf_key *key;
    const char *name = "k";
    struct hf_key_info info = HF_KEY_INFO;
    publish(&pair->one, "k", "before");
    MUST(hf_txn_begin(pair->one.client, NULL, &txn, &error));
    MUST(hf_txn_acquire(txn, &name, 1, NULL, 0, &key, &error));
    update(key, "never");
    struct hf_key *other = key_with(&pair->two, "k", 60000, false);
    IS(HF_HELD, hf_key_acquire(other, 0, &info, &error));
    ASSERT(info.outcome == HF_KEY_WAITING);
    take_away(&pair->two, key);
    MUST(hf_key_acquire(other, 0, &info, &error));
    ASSERT(info.version == 1 && info.txn[0] == '\0');
    update(other, "after");
    pass_ms(20); /* what was just read counts as current */
    refuses(key, NULL, HF_KEY_FENCING_MISMATCH, HF_FENCED);
    enum hf_decision decision = HF_COMMIT;
    enum hf_status status = hf_txn_commit(txn, &decision, &error);
    ASSERT(status == HF_MISMATCH || status == HF_LOST);
    ASSERT(decision == HF_ROLLBACK);
    hf_txn_free(txn);
    done(other);
    reads(&pair->one, "k", "after");
}

static void waiting(void **state)
{
    struct pair *pair = *state;
    struct hf_key *held = key_held(&pair->one, "k");
    struct hf_key *key = key_with(&pair->two, "k", 60000, false);
    struct hf_key_info info = HF_KEY_INFO;
    IS(HF_HELD, hf_key_acquire(key, 0, &info, &error));
    ASSERT(info.outcome == HF_KEY_WAITING);
    IS(HF_TIMEOUT, hf_key_acquire(key, 30, &info, &error));
    ASSERT(info.outcome == HF_KEY_WAITING);
    done(held);
    MUST(hf_key_acquire(key, 0, &info, &error));
    ASSERT(info.outcome == HF_KEY_NONE);
    done(key);
}

int main(int argc, char **argv)
{
    if (!world_kind_set(argc, argv))
        return 2;
    const struct CMUnitTest tests[] = {
        PAIR("a key that was never written is not found", never_written),
        PAIR("what is published is read by anybody, whatever its size", any_size),
        PAIR("each change has the next version, and no ETag is used twice", versions),
        PAIR("a removed key keeps its version, and can be written again", removed),
        PAIR("who reads says how much is too much", too_large_to_read),
        PAIR("names that cannot be are refused with a sentence", bad_names),
        PAIR("names that can be have room for bodies beside their documents", good_names),
        PAIR("modes, times and leases that cannot be are refused", bad_options),
        PAIR("waits, conditions and sizes that cannot be are refused", bad_arguments),
        PAIR("a large file is streamed there and back in bounded memory", large_file),
        PAIR("a small file is like bytes", small_file),
        PAIR("without a lease: lease_required", lease_required),
        PAIR("with a lease that is shared: lease_required", shared_is_not_enough),
        PAIR("after the lease was taken away: lease_expired", lease_expired),
        PAIR("after it was granted to another: fencing_mismatch", fencing_mismatch),
        PAIR("it is told the same when the handle noticed first", noticed_first),
        PAIR("conditions: version_conflict and etag_mismatch", conditions),
        PAIR("the body of a refused change does not stay", refused_bodies),
        PAIR("a key of a transaction is changed by that alone: txn_mismatch", txn_mismatch),
        PAIR("a key is to be had once the transaction of a dead lease is rolled back",
             taken_for_another),
        PAIR("while another holds the key: waiting", waiting),
    };
    return cmocka_run_group_tests_name("key", tests, NULL, NULL);
}
