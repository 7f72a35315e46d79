/* SPDX-License-Identifier: Apache-2.0 */
/* base_test.c: views, buffers, arena, statuses, errors, moments, hashes and the seeded
 * generator, each compared with the promises of its header. Parsing is in base_parse_test.c,
 * the map in map_test.c. */
#include "alloc.h"
#include "base/arena.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/moment.h"
#include "base/no_space.h"
#include "base/parse.h"
#include "base/prng.h"
#include "base/view.h"
#include "test.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- views --------------------------------------------------------------------------- */

static void compares_by_byte(void **state)
{
    (void)state;
    static const struct view rising[] = {
        { "", 0 },     { "\0", 1 },   { "\0\0", 2 }, { "\0a", 2 },    { "A", 1 },
        { "a", 1 },    { "a\0", 2 },  { "a\0b", 3 }, { "aa", 2 },     { "ab", 2 },
        { "\x7f", 1 }, { "\x80", 1 }, { "\xff", 1 }, { "\xff\0", 2 }, { "\xff\xff", 2 },
    };
    size_t count = sizeof rising / sizeof *rising;
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < count; j++) {
            int order = view_compare(rising[i], rising[j]);
            assert_int_equal((order > 0) - (order < 0), (i > j) - (i < j));
            assert_int_equal(view_equal(rising[i], rising[j]), i == j);
        }
    }
}

static void takes_null_with_size_zero(void **state)
{
    (void)state;
    struct view nothing = { NULL, 0 };
    assert_true(view_equal(nothing, VIEW("")));
    assert_int_equal(view_compare(nothing, VIEW("")), 0);
    assert_true(view_compare(nothing, VIEW("a")) < 0);
    assert_true(view_compare(VIEW("a"), nothing) > 0);
    assert_true(view_starts_with(VIEW("a"), nothing));
    assert_true(view_starts_with(nothing, nothing));
    assert_int_equal(view_find(nothing, 'a'), 0);
    struct view rest = nothing;
    assert_int_equal(view_cut(&rest, '/').size, 0);
}

static void finds_and_starts(void **state)
{
    (void)state;
    assert_true(view_starts_with(VIEW("abc"), VIEW("abc")));
    assert_false(view_starts_with(VIEW("abc"), VIEW("abcd")));
    assert_false(view_starts_with(VIEW("abc"), VIEW("b")));
    assert_int_equal(view_find(VIEW("a/b/c"), '/'), 1);
    assert_int_equal(view_find(VIEW("abc"), '/'), 3);
    assert_int_equal(view_find(VIEW("a\0b"), 'b'), 2);
    assert_int_equal(view_find((struct view){ "x\xff", 2 }, '\xff'), 1);
}

static void slices_within_itself(void **state)
{
    (void)state;
    struct view text = VIEW("abc");
    assert_true(view_equal(view_from(text, 1), VIEW("bc")));
    assert_int_equal(view_from(text, 3).size, 0);
    assert_int_equal(view_from(text, SIZE_MAX).size, 0);
    assert_true(view_equal(view_first(text, 2), VIEW("ab")));
    assert_true(view_equal(view_first(text, SIZE_MAX), text));
}

static void cuts_at_separators(void **state)
{
    (void)state;
    struct view rest = VIEW("a//bc/");
    assert_true(view_equal(view_cut(&rest, '/'), VIEW("a")));
    assert_true(view_equal(view_cut(&rest, '/'), VIEW("")));
    assert_true(view_equal(view_cut(&rest, '/'), VIEW("bc")));
    assert_true(view_equal(rest, VIEW("")));
    struct view whole = VIEW("abc");
    assert_true(view_equal(view_cut(&whole, '/'), VIEW("abc")));
    assert_int_equal(whole.size, 0);
}

/* ---- buffers ------------------------------------------------------------------------- */

static void appends_up_to_its_bound(void **state)
{
    (void)state;
    struct buffer buffer = BUFFER_INIT(5);
    assert_true(buffer_append(&buffer, VIEW("abc")));
    assert_true(buffer_append(&buffer, VIEW("de")));
    assert_true(view_equal(buffer_view(&buffer), VIEW("abcde")));
    assert_true(buffer_append(&buffer, VIEW("")));
    assert_string_equal(buffer_text(&buffer), "abcde");
    assert_int_equal(buffer.size, 5);
    assert_false(buffer.failed);

    assert_false(buffer_append_byte(&buffer, 'f'));
    assert_true(buffer.failed);
    assert_true(view_equal(buffer_view(&buffer), VIEW("abcde")));
    buffer_release(&buffer);
}

static void prints_up_to_its_bound(void **state)
{
    (void)state;
    struct buffer buffer = BUFFER_INIT(5);
    assert_true(buffer_print(&buffer, "%s-%d", "ab", 42) && buffer.size == 5);
    assert_true(view_equal(buffer_view(&buffer), VIEW("ab-42")));
    assert_true(buffer_print(&buffer, "%s", ""));
    assert_false(buffer_print(&buffer, "x"));
    assert_true(buffer.failed);
    assert_int_equal(buffer.size, 5);
    buffer_release(&buffer);
}

static void stays_failed_until_cleared(void **state)
{
    (void)state;
    struct buffer buffer = BUFFER_INIT(4);
    assert_true(buffer_append(&buffer, VIEW("ab")));
    assert_false(buffer_append(&buffer, VIEW("cde")));
    assert_false(buffer_append(&buffer, VIEW("c")));
    assert_true(view_equal(buffer_view(&buffer), VIEW("ab")));
    assert_null(buffer_text(&buffer));
    buffer_clear(&buffer);
    assert_false(buffer.failed);
    assert_int_equal(buffer_view(&buffer).size, 0);
    assert_non_null(buffer_view(&buffer).data);
    assert_true(buffer_append(&buffer, VIEW("wxyz")));
    buffer_release(&buffer);
    buffer_release(&buffer);
}

static void refuses_absurd_sizes(void **state)
{
    (void)state;
    struct buffer buffer = BUFFER_INIT(SIZE_MAX);
    assert_true(buffer_append(&buffer, VIEW("abc")));
    assert_false(buffer_reserve(&buffer, SIZE_MAX));
    assert_true(buffer.failed);
    buffer_clear(&buffer);
    assert_false(buffer_reserve(&buffer, SIZE_MAX - 8));
    buffer_release(&buffer);

    struct buffer none = BUFFER_INIT(0);
    assert_true(buffer_append(&none, VIEW("")));
    assert_string_equal(buffer_text(&none), "");
    assert_false(buffer_append(&none, VIEW("a")));
    buffer_release(&none);
}

static void never_takes_more_than_its_bound(void **state)
{
    (void)state;
    struct buffer buffer = BUFFER_INIT(100);
    for (int i = 0; i < 100; i++)
        assert_true(buffer_append_byte(&buffer, (char)i));
    assert_in_range(buffer.capacity, 100, 101);
    for (int i = 0; i < 100; i++)
        assert_int_equal(buffer.data[i], i);
    buffer_release(&buffer);
}

static void a_bound_may_be_lowered(void **state)
{
    (void)state;
    struct buffer buffer = BUFFER_INIT(100);
    assert_true(buffer_append(&buffer, VIEW("abc")));
    buffer.max = 5;
    assert_true(buffer.capacity > 6);
    assert_false(buffer_append(&buffer, VIEW("def")));
    assert_true(view_equal(buffer_view(&buffer), VIEW("abc")));
    buffer_release(&buffer);
}

static void numbers_stand_as_printf_has_them(void **state)
{
    (void)state;
    struct prng random = prng_seeded(9);
    for (int i = 0; i < 2000; i++) {
        uint64_t number = i == 0   ? 0
                          : i == 1 ? UINT64_MAX
                          : i == 2 ? (uint64_t)INT64_MIN
                                   : prng_next(&random);
        number >>= i < 3 ? 0 : prng_below(&random, 64);
        char expected[64];
        snprintf(expected, sizeof expected, "%" PRIu64 " %" PRId64, number, (int64_t)number);
        struct buffer buffer = BUFFER_INIT(64);
        buffer_append_u64(&buffer, number);
        buffer_append_byte(&buffer, ' ');
        assert_true(buffer_append_i64(&buffer, (int64_t)number));
        assert_string_equal(buffer_text(&buffer), expected);
        buffer_release(&buffer);
    }
    struct buffer small = BUFFER_INIT(2);
    assert_false(buffer_append_u64(&small, 100));
    assert_true(small.failed && small.size == 0);
    buffer_release(&small);
}

static void grows_without_losing_bytes(void **state)
{
    (void)state;
    struct prng prng = prng_seeded(1);
    struct buffer buffer = BUFFER_INIT(1 << 20);
    static char model[1 << 20];
    size_t size = 0;
    while (size < sizeof model - 300) {
        char piece[256];
        size_t length = (size_t)prng_below(&prng, sizeof piece);
        for (size_t i = 0; i < length; i++)
            piece[i] = (char)prng_next(&prng);
        memcpy(model + size, piece, length);
        size += length;
        assert_true(buffer_append(&buffer, (struct view){ piece, length }));
    }
    assert_true(view_equal(buffer_view(&buffer), (struct view){ model, size }));
    buffer_release(&buffer);
}

static void survives_each_failed_allocation(void **state)
{
    (void)state;
    for (long n = 0;; n++) {
        struct buffer buffer = BUFFER_INIT(4096);
        size_t before_failure = 0;
        alloc_fail_after(n);
        for (int i = 0; i < 100 && !buffer.failed; i++) {
            before_failure = buffer.size;
            buffer_print(&buffer, "%d,%s;", i, "0123456789");
        }
        bool failed = alloc_stop();
        assert_int_equal(buffer.failed, failed);
        if (failed)
            assert_int_equal(buffer.size, before_failure);
        buffer_release(&buffer);
        if (!failed) {
            assert_true(n > 1);
            return;
        }
    }
}

/* ---- arena --------------------------------------------------------------------------- */

static void gives_aligned_memory_that_does_not_overlap(void **state)
{
    (void)state;
    enum { PIECES = 2000 };
    static unsigned char *piece[PIECES];
    static size_t size[PIECES];
    struct arena arena = ARENA_INIT;
    struct prng prng = prng_seeded(2);
    for (size_t i = 0; i < PIECES; i++) {
        size[i] = (size_t)prng_below(&prng, i % 100 == 0 ? 100000 : 200);
        piece[i] = arena_take(&arena, size[i]);
        assert_non_null(piece[i]);
        assert_int_equal((uintptr_t)piece[i] % _Alignof(max_align_t), 0);
        memset(piece[i], (int)(i & 0xff), size[i]);
    }
    for (size_t i = 0; i < PIECES; i++)
        for (size_t j = 0; j < size[i]; j++)
            assert_int_equal(piece[i][j], i & 0xff);
    arena_release(&arena);
    arena_release(&arena);
}

static void copies_with_a_nul_behind(void **state)
{
    (void)state;
    struct arena arena = ARENA_INIT;
    struct view copy = arena_copy(&arena, (struct view){ "a\0b", 3 });
    assert_int_equal(copy.size, 3);
    assert_memory_equal(copy.data, "a\0b\0", 4);
    struct view empty = arena_copy(&arena, (struct view){ NULL, 0 });
    assert_non_null(empty.data);
    assert_int_equal(empty.size, 0);
    assert_int_equal(empty.data[0], 0);
    arena_release(&arena);
}

static void answers_null_without_memory(void **state)
{
    (void)state;
    struct arena arena = ARENA_INIT;
    alloc_fail_after(0);
    assert_null(arena_take(&arena, 10));
    assert_true(alloc_stop());
    alloc_fail_after(0);
    assert_null(arena_copy(&arena, VIEW("abc")).data);
    assert_true(alloc_stop());
    assert_null(arena_take(&arena, SIZE_MAX));
    assert_null(arena_take(&arena, SIZE_MAX - 100));
    assert_null(arena_take(&arena, SIZE_MAX / 2));
    assert_non_null(arena_take(&arena, 10));
    arena_release(&arena);
}

/* ---- statuses and errors ------------------------------------------------------------- */

static void every_status_has_its_own_name_text_and_code(void **state)
{
    (void)state;
    static const char *const names[] = {
#define NAME(name, code, text) #name,
        HF_STATUS_TABLE(NAME)
#undef NAME
    };
    static const int codes[] = {
#define CODE(name, code, text) code,
        HF_STATUS_TABLE(CODE)
#undef CODE
    };
    assert_int_equal(sizeof names / sizeof *names, HF_STATUS_COUNT);
    for (int i = 0; i < HF_STATUS_COUNT; i++) {
        enum hf_status one = (enum hf_status)i;
        assert_string_equal(hf_status_name(one), names[i]);
        assert_int_equal(hf_status_exit_code(one), codes[i]);
        assert_true(strlen(hf_status_text(one)) > 3);
        assert_true(i == HF_OK ? codes[i] == 0 : codes[i] >= 80 && codes[i] < 126);
        for (int j = 0; j < i; j++) {
            assert_int_not_equal(codes[i], codes[j]);
            assert_string_not_equal(names[i], names[j]);
            assert_string_not_equal(hf_status_text(one), hf_status_text((enum hf_status)j));
        }
    }
}

static void an_error_carries_status_and_reason(void **state)
{
    (void)state;
    struct hf_error error;
    assert_int_equal(error_set(&error, HF_DENIED, "no %s for %d", "key", 7), HF_DENIED);
    assert_int_equal(error.status, HF_DENIED);
    assert_string_equal(error.why, "no key for 7");
    error_prefix(&error, "put %s", "jobs/db-1");
    assert_string_equal(error.why, "put jobs/db-1: no key for 7");
    error_prefix(&error, "renew");
    assert_string_equal(error.why, "renew: put jobs/db-1: no key for 7");
    assert_int_equal(error.status, HF_DENIED);
    assert_int_equal(error_clear(&error), HF_OK);
    assert_string_equal(error.why, "");
    assert_int_equal(error_no_memory(&error), HF_UNAVAILABLE);
}

static void a_long_reason_is_cut(void **state)
{
    (void)state;
    char text[2 * HF_WHY_MAX];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    struct {
        struct hf_error error;
        char guard[16];
    } box;
    memset(box.guard, 'G', sizeof box.guard);
    error_set(&box.error, HF_INVALID, "%s", text);
    assert_int_equal(strlen(box.error.why), HF_WHY_MAX - 1);
    error_prefix(&box.error, "abc");
    assert_int_equal(strlen(box.error.why), HF_WHY_MAX - 1);
    assert_memory_equal(box.error.why, "abc: xxx", 8);
    error_prefix(&box.error, "%s", text);
    assert_int_equal(strlen(box.error.why), HF_WHY_MAX - 1);
    for (size_t length = 1; length < HF_WHY_MAX + 4; length++) {
        error_set(&box.error, HF_INVALID, "why");
        error_prefix(&box.error, "%.*s", (int)length, text);
        assert_true(strlen(box.error.why) < HF_WHY_MAX);
        if (length + 5 < HF_WHY_MAX)
            assert_string_equal(box.error.why + length, ": why");
    }
    for (size_t i = 0; i < sizeof box.guard; i++)
        assert_int_equal(box.guard[i], 'G');
}

static void a_reason_may_quote_the_one_before(void **state)
{
    (void)state;
    struct hf_error error;
    error_set(&error, HF_NOT_FOUND, "no such file");
    error_set(&error, HF_CORRUPT, "index is damaged (%s)", error.why);
    assert_string_equal(error.why, "index is damaged (no such file)");
    error_prefix(&error, "%.5s", error.why);
    assert_string_equal(error.why, "index: index is damaged (no such file)");
}

static void nobody_need_ask_for_the_reason(void **state)
{
    (void)state;
    assert_int_equal(error_set(NULL, HF_HELD, "x %d", 1), HF_HELD);
    error_prefix(NULL, "x");
    assert_int_equal(error_clear(NULL), HF_OK);
    assert_int_equal(error_from_errno(NULL, ENOSPC, "write"), HF_UNAVAILABLE);
}

static void errno_becomes_what_to_do_next(void **state)
{
    (void)state;
    static const struct {
        int number;
        enum hf_status status;
    } rows[] = {
        { ENOSPC, HF_UNAVAILABLE }, { EDQUOT, HF_UNAVAILABLE }, { EBUSY, HF_UNAVAILABLE },
        { EAGAIN, HF_UNAVAILABLE }, { ENOMEM, HF_UNAVAILABLE }, { EMFILE, HF_UNAVAILABLE },
        { ENFILE, HF_UNAVAILABLE }, { EIO, HF_UNAVAILABLE },    { EACCES, HF_DENIED },
        { EPERM, HF_DENIED },       { EROFS, HF_DENIED },       { ENOENT, HF_NOT_FOUND },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct hf_error error;
        if (error_from_errno(&error, rows[i].number, "open x") != rows[i].status)
            fail_msg("%s became %s", strerror(rows[i].number), hf_status_name(error.status));
        assert_int_equal(error.status, rows[i].status);
        assert_non_null(strstr(error.why, "open x"));
        assert_true(strlen(error.why) > strlen("open x: "));
        assert_int_equal(error_is_no_space(&error),
                         rows[i].number == ENOSPC || rows[i].number == EDQUOT);
    }
    for (int number = 1; number < 200; number++) {
        struct hf_error error;
        assert_int_not_equal(error_from_errno(&error, number, "step"), HF_OK);
        assert_int_not_equal(error.status, HF_UNSURE);
    }
}

/* ---- moments ------------------------------------------------------------------------- */

static void moments_add_and_compare(void **state)
{
    (void)state;
    struct mono_time t = { 5000000 };
    assert_int_equal(mono_add(t, SPAN_MS(2)).us, 5002000);
    assert_int_equal(mono_since(mono_add(t, SPAN_S(3)), t).us, 3000000);
    assert_true(mono_before(t, mono_add(t, SPAN_US(1))));
    assert_false(mono_before(t, t));
    assert_int_equal(mono_earlier(t, mono_add(t, SPAN_US(-1))).us, 4999999);
    assert_int_equal(wall_add((struct wall_time){ -1 }, SPAN_US(1)).us, 0);
    assert_int_equal(wall_since((struct wall_time){ 1 }, (struct wall_time){ -1 }).us, 2);
    assert_true(wall_before((struct wall_time){ -1 }, (struct wall_time){ 0 }));
    assert_int_equal(span_smaller(SPAN_MS(1), SPAN_US(999)).us, 999);
    assert_int_equal(SPAN_MS(1 + 1).us, 2000);
    assert_int_equal(SPAN_S(1 + 1).us, 2000000);
    assert_true(mono_before(t, mono_add((struct mono_time){ MOMENT_FAR }, SPAN_S(3600))));
    assert_true(mono_add((struct mono_time){ MOMENT_FAR }, (struct span){ MOMENT_FAR }).us > 0);
}

/* ---- hashes -------------------------------------------------------------------------- */

static void crc32c_gives_the_published_answers(void **state)
{
    (void)state;
    unsigned char bytes[32];
    assert_int_equal(crc32c(0, VIEW("")), 0);
    assert_int_equal(crc32c(0, VIEW("123456789")), 0xe3069283);
    memset(bytes, 0, sizeof bytes);
    struct view all = { (const char *)bytes, sizeof bytes };
    assert_int_equal(crc32c(0, all), 0x8a9136aa);
    memset(bytes, 0xff, sizeof bytes);
    assert_int_equal(crc32c(0, all), 0x62a8ab43);
    for (unsigned i = 0; i < 32; i++)
        bytes[i] = (unsigned char)i;
    assert_int_equal(crc32c(0, all), 0x46dd794e);
    for (unsigned i = 0; i < 32; i++)
        bytes[i] = (unsigned char)(31 - i);
    assert_int_equal(crc32c(0, all), 0x113fdb5c);
    assert_int_equal(crc32c_by_table(0, all), 0x113fdb5c);
}

static void both_ways_to_crc32c_agree(void **state)
{
    (void)state;
    static char bytes[40000];
    /* So many bytes are computed in three lanes at a time. */
    static const size_t sizes_from[] = { 0, 3 * 4096 - 20, 6 * 4096 - 20, 9 * 4096 - 20 };
    struct prng prng = prng_seeded(3);
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)prng_next(&prng);
    for (size_t offset = 0; offset < 16; offset++)
        for (size_t from = 0; from < sizeof sizes_from / sizeof sizes_from[0]; from++)
            for (size_t more = 0; more <= (from > 0 ? 40 : 530); more++) {
                struct view piece = { bytes + offset, sizes_from[from] + more };
                uint32_t start = (uint32_t)prng_next(&prng);
                assert_int_equal(crc32c(start, piece), crc32c_by_table(start, piece));
            }
}

static void crc32c_goes_on_where_it_stopped(void **state)
{
    (void)state;
    struct view text = VIEW("the quick brown fox jumps over the lazy dog, twice if it must");
    uint32_t whole = crc32c(0, text);
    for (size_t cut = 0; cut <= text.size; cut++)
        assert_int_equal(crc32c(crc32c(0, view_first(text, cut)), view_from(text, cut)), whole);
}

static void xxh3_gives_the_published_answer(void **state)
{
    (void)state;
    assert_true(hash_xxh3(VIEW("")) == UINT64_C(0x2d06800538d394c2));
    assert_true(hash_xxh3((struct view){ NULL, 0 }) == UINT64_C(0x2d06800538d394c2));
    assert_true(hash_xxh3(VIEW("a")) != hash_xxh3(VIEW("b")));
}

/* ---- the seeded sequence ------------------------------------------------------------- */

static void the_sequence_is_the_same_everywhere(void **state)
{
    (void)state;
    static const uint64_t expected[] = {
        UINT64_C(6457827717110365317),  UINT64_C(3203168211198807973),
        UINT64_C(9817491932198370423),  UINT64_C(4593380528125082431),
        UINT64_C(16408922859458223821),
    };
    struct prng prng = prng_seeded(1234567);
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        assert_true(prng_next(&prng) == expected[i]);
    struct prng zero = prng_seeded(0);
    assert_true(prng_next(&zero) == UINT64_C(0xe220a8397b1dcdaf));
}

static void chances_are_about_right(void **state)
{
    (void)state;
    struct prng prng = prng_seeded(4);
    int hits = 0, never = 0, always = 0;
    for (int i = 0; i < 100000; i++) {
        hits += prng_chance(&prng, 250000);
        never += prng_chance(&prng, 0);
        always += prng_chance(&prng, 1000000);
        assert_true(prng_below(&prng, 7) < 7);
        assert_true(prng_below(&prng, 1) == 0);
    }
    assert_in_range(hits, 24000, 26000);
    assert_int_equal(never, 0);
    assert_int_equal(always, 100000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("views compare by unsigned byte, a prefix before what it starts", compares_by_byte),
        IT("an empty view may have no address", takes_null_with_size_zero),
        IT("a view finds a byte and knows its start", finds_and_starts),
        IT("a slice of a view stays within it, whatever the offset", slices_within_itself),
        IT("cutting at a separator leaves the rest, empty pieces included", cuts_at_separators),
        IT("a buffer takes bytes up to its bound and not one more", appends_up_to_its_bound),
        IT("a print may fill a buffer to its bound", prints_up_to_its_bound),
        IT("a failed buffer stays failed and unchanged until cleared",
           stays_failed_until_cleared),
        IT("a buffer refuses absurd sizes without overflow", refuses_absurd_sizes),
        IT("a buffer never allocates beyond its bound", never_takes_more_than_its_bound),
        IT("a bound that is lowered holds for what has room already", a_bound_may_be_lowered),
        IT("numbers stand in a buffer as printf has them", numbers_stand_as_printf_has_them),
        IT("a growing buffer loses no byte", grows_without_losing_bytes),
        IT("a buffer survives each failed allocation in turn", survives_each_failed_allocation),
        IT("an arena gives aligned pieces that do not overlap",
           gives_aligned_memory_that_does_not_overlap),
        IT("an arena copies with a NUL behind", copies_with_a_nul_behind),
        IT("an arena without memory answers NULL and goes on", answers_null_without_memory),
        IT("every status has a name, a text and an exit code of its own",
           every_status_has_its_own_name_text_and_code),
        IT("an error carries a status, a reason and who was on the way",
           an_error_carries_status_and_reason),
        IT("a reason that does not fit is cut, never spilled", a_long_reason_is_cut),
        IT("a reason may quote the reason before it", a_reason_may_quote_the_one_before),
        IT("a caller that wants no reason passes NULL", nobody_need_ask_for_the_reason),
        IT("an errno becomes what the caller may do next, with the step named",
           errno_becomes_what_to_do_next),
        IT("moments and spans add and compare", moments_add_and_compare),
        IT("CRC32C gives the published answers", crc32c_gives_the_published_answers),
        IT("CRC32C by instruction and by table agree for every length and alignment",
           both_ways_to_crc32c_agree),
        IT("CRC32C in pieces equals CRC32C of the whole", crc32c_goes_on_where_it_stopped),
        IT("XXH3 gives the published answer", xxh3_gives_the_published_answer),
        IT("the seeded sequence is the published one", the_sequence_is_the_same_everywhere),
        IT("chances come out as often as they say", chances_are_about_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
