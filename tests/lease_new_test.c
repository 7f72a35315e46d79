/* SPDX-License-Identifier: Apache-2.0 */
/* lease_new_test.c: a new lease has the fields that its bytes are decoded to, although most leases
 * are not decoded. */
#include "base/prng.h"
#include "lease/lease.h"
#include "test.h"

static struct view any_text(struct prng *prng, const char *usual)
{
    static char long_text[2000];
    static const char *const unusual[] = { "",         "a\"b",        "a\\", "\xef\xbf",
                                           "\xbf\xbd", "caf\xc3\xa9", "\x01" };
    memset(long_text, 'x', sizeof long_text - 1);
    uint64_t choice = prng_below(prng, 60);
    return choice < 7    ? view_of(unusual[choice])
           : choice == 7 ? view_of(long_text)
                         : view_of(usual);
}

static int64_t any_number(struct prng *prng, int64_t usual)
{
    static const int64_t unusual[] = { 0, 1, -1, 999, -1001, UINT32_MAX, INT64_MAX, INT64_MIN };
    uint64_t choice = prng_below(prng, 200);
    return choice < 8 ? unusual[choice] : usual;
}

static struct lease any_fields(struct prng *prng, struct scope scopes[2])
{
    static const char *const texts[] = { "named:k", "path:/a/b",  "tree:/a",
                                         "inode:7", "range:7:0-", "range:7:1-4096",
                                         "pin:x",   "shard:d/a3", "snapshot:e:42",
                                         "chunk:x", "path:/\"" };
    static const char *const notes[] = {
        "{\"owner\":\"b\"}", "{\"a\":\"\\n\"}", "1 ", " 1", "1,\"x\":2", "{", "\"text\""
    };
    uint64_t note = prng_below(prng, 30);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(scope_parse(view_of(texts[prng_below(prng, 11)]), &scopes[i], NULL),
                         HF_OK);
    struct lease fields = {
        .id = any_text(prng, "0123456789abcdef-1"),
        .holder = any_text(prng, "holder"),
        .session = any_text(prng, "0123456789abcdef"),
        .nonce = any_text(prng, "fedcba9876543210"),
        .clock = any_text(prng, "a-clock"),
        .output = prng_below(prng, 4) ? VIEW("") : any_text(prng, "data/out"),
        .note = note < 7    ? view_of(notes[note])
                : note < 10 ? VIEW("")
                            : view_of(notes[0]),
        .unknown = prng_below(prng, 30) ? VIEW("") : VIEW(",\"more\":[1]"),
        .wish = { .scopes = scopes,
                  .scope_count = prng_below(prng, 20) ? 1 : prng_below(prng, 3),
                  .mode = (enum lease_mode)prng_below(prng, 3),
                  .slots = (uint64_t)any_number(prng, 0),
                  .level = (uint64_t)any_number(prng, 3),
                  .ttl = { any_number(prng, 30000000) } },
        .token = (uint64_t)any_number(prng, 42),
        .status = (enum lease_status)prng_below(prng, 6),
        .renewals = (uint64_t)any_number(prng, 2),
        .acquired_at = { any_number(prng, 1700000000123456) },
        .expires_at = { any_number(prng, 1700000030123999) },
        .expires = { any_number(prng, 123456789) },
        .ended = { any_number(prng, 0) },
        .once_per = { any_number(prng, 0) },
        .granted = { (uint64_t)any_number(prng, 0), any_number(prng, 0) },
    };
    return fields;
}

static void assert_same_text(struct view a, struct view b)
{
    if (!view_equal(a, b))
        fail_msg("'%.*s' and '%.*s'", VIEW_ARGS(a), VIEW_ARGS(b));
}

static void assert_same_lease(const struct lease *a, const struct lease *b)
{
    assert_same_text(a->id, b->id);
    assert_same_text(a->holder, b->holder);
    assert_same_text(a->session, b->session);
    assert_same_text(a->place, b->place);
    assert_same_text(a->nonce, b->nonce);
    assert_same_text(a->clock, b->clock);
    assert_same_text(a->output, b->output);
    assert_same_text(a->note, b->note);
    assert_same_text(a->unknown, b->unknown);
    assert_same_text(a->bytes, b->bytes);
    assert_same_text(a->entry, b->entry);
    assert_int_equal(a->wish.scope_count, b->wish.scope_count);
    for (size_t i = 0; i < a->wish.scope_count; i++)
        assert_true(scope_equal(&a->wish.scopes[i], &b->wish.scopes[i]));
    assert_true(a->wish.mode == b->wish.mode && a->wish.slots == b->wish.slots &&
                a->wish.level == b->wish.level && a->wish.ttl.us == b->wish.ttl.us &&
                a->wish.poll.us == b->wish.poll.us);
    assert_true(a->token == b->token && a->status == b->status && a->renewals == b->renewals);
    assert_int_equal(a->acquired_at.us, b->acquired_at.us);
    assert_int_equal(a->expires_at.us, b->expires_at.us);
    assert_true(a->expires.us == b->expires.us && a->ended.us == b->ended.us);
    assert_true(a->once_per.us == b->once_per.us && a->granted.clock == b->granted.clock &&
                a->granted.us == b->granted.us);
}

/* Whatever the fields are: most leases are not decoded from their bytes. */
static void a_new_lease_has_the_fields_of_its_bytes(void **state)
{
    (void)state;
    struct prng prng = prng_seeded(20261118);
    int created = 0;
    for (int i = 0; i < 20000; i++) {
        struct scope scopes[2];
        struct lease fields = any_fields(&prng, scopes), *lease, *read;
        struct hf_error error;
        enum hf_status status = lease_new(&fields, &lease, &error);
        if (status != HF_OK) {
            assert_int_equal(status, HF_INVALID);
            continue;
        }
        assert_int_equal(lease_decode(lease->id, lease->bytes, &read, &error), HF_OK);
        assert_same_lease(lease, read);
        lease_free(lease);
        lease_free(read);
        created++;
    }
    assert_in_range(created, 1000, 19000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("a new lease has the fields of its bytes", a_new_lease_has_the_fields_of_its_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
