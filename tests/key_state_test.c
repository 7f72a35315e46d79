/* SPDX-License-Identifier: Apache-2.0 */
/* key_state_test.c: the state of a key: its transitions, and its JSON. Every state survives
 * being written, and no damaged text is accepted as a state. */
#include "alloc.h"
#include "base/json.h"
#include "key/state.h"
#include "lease/table.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>

#define ETAG_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define ETAG_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define ETAG_C "cccccccccccccccccccccccccccccccc"
#define TXN    "0123456789abcdef0123456789abcdef"

static struct state_version version_of(const char *etag, uint64_t token, struct view bytes)
{
    struct state_version version = { .token = token, .size = bytes.size, .bytes = bytes };
    memcpy(version.etag, etag, NONCE_SIZE);
    version.at.us = INT64_C(1770372000123000);
    return version;
}

static struct state_version with_body(const char *etag, uint64_t token, uint64_t size)
{
    struct state_version version = version_of(etag, token, VIEW(""));
    version.has_body = true;
    version.size = size;
    return version;
}

static struct state_stage stage_of(const char *txn, const struct state_version *next)
{
    struct state_stage stage = { .token = next->token, .changes = true, .next = *next };
    memcpy(stage.txn, txn, strlen(txn));
    return stage;
}

static struct buffer text_of(const struct key_state *state)
{
    struct buffer text = BUFFER_INIT(TABLE_STATE_MAX);
    assert_true(state_write(state, &text));
    return text;
}

static void assert_text(const char *expected, const struct key_state *state)
{
    struct buffer text = text_of(state);
    assert_string_equal(expected, buffer_text(&text));
    buffer_release(&text);
}

static struct key_state read_back(const char *text)
{
    struct key_state state;
    struct hf_error error;
    state_init(&state);
    assert_status(HF_OK, state_read(view_of(text), &state, &error), &error);
    return state;
}

/* Writes, reads and writes again: the same text. */
static struct key_state assert_survives(const struct key_state *state)
{
    struct buffer text = text_of(state);
    struct key_state again = read_back(buffer_text(&text));
    assert_text(buffer_text(&text), &again);
    buffer_release(&text);
    return again;
}

static void assert_same_version(const struct state_version *a, const struct state_version *b)
{
    assert_int_equal(a->number, b->number);
    assert_int_equal(a->token, b->token);
    assert_int_equal(a->size, b->size);
    assert_string_equal(a->etag, b->etag);
    assert_int_equal(a->at.us / 1000, b->at.us / 1000);
    assert_int_equal(a->removed, b->removed);
    assert_int_equal(a->has_body, b->has_body);
    assert_true(view_equal(a->bytes, b->bytes));
}

/* ---- Moves --------------------------------------------------------------------------- */

static void versions_count_from_one(void **unused)
{
    (void)unused;
    struct key_state state;
    state_init(&state);
    struct state_version a = version_of(ETAG_A, 5, VIEW("one"));
    struct state_version b = version_of(ETAG_B, 6, VIEW("two"));
    state_publish(&state, &a);
    assert_int_equal(1, state.now.number);
    state_publish(&state, &b);
    assert_int_equal(2, state.now.number);
    assert_string_equal(ETAG_B, state.now.etag);
    assert_int_equal(0, state.old_count);
    state_release(&state);
}

static void a_body_that_is_replaced_becomes_old(void **unused)
{
    (void)unused;
    struct key_state state;
    state_init(&state);
    struct state_version a = with_body(ETAG_A, 5, 9000);
    struct state_version b = with_body(ETAG_B, 6, 9001);
    struct body_name name_a = { 5, ETAG_A }, name_b = { 6, ETAG_B }, other = { 7, ETAG_A };
    state_publish(&state, &a);
    assert_true(state_names_body(&state, &name_a));
    assert_false(state_names_body(&state, &other));
    state_publish(&state, &b);
    assert_false(state_names_body(&state, &name_a));
    assert_true(state_names_body(&state, &name_b));
    assert_int_equal(1, state.old_count);
    assert_string_equal(ETAG_A, state.old[0].etag);
    assert_false(state_forget_old(&state, &other, 1));
    assert_true(state_forget_old(&state, (struct body_name[]){ other, name_a }, 2));
    assert_int_equal(0, state.old_count);
    state_release(&state);
}

static void of_too_many_old_bodies_the_oldest_is_left(void **unused)
{
    (void)unused;
    struct key_state state;
    state_init(&state);
    for (uint64_t token = 1; token <= STATE_OLD_MAX + 3; token++) {
        struct state_version version = with_body(ETAG_A, token, 9000);
        state_publish(&state, &version);
    }
    assert_int_equal(STATE_OLD_MAX, state.old_count);
    assert_int_equal(3, state.old[0].token);
    assert_int_equal(STATE_OLD_MAX + 2, state.old[STATE_OLD_MAX - 1].token);
    struct key_state again = assert_survives(&state);
    assert_int_equal(STATE_OLD_MAX, again.old_count);
    state_release(&again);
    state_release(&state);
}

static void a_stage_is_shown_when_it_is_committed(void **unused)
{
    (void)unused;
    struct key_state state;
    state_init(&state);
    struct state_version a = version_of(ETAG_A, 5, VIEW("one"));
    struct state_version b = with_body(ETAG_B, 6, 9000);
    struct state_stage stage = stage_of(TXN, &b);
    state_publish(&state, &a);
    state_set_stage(&state, &stage);
    assert_ptr_equal(&state.now, state_shown(&state, false));
    assert_ptr_equal(&state.stage.next, state_shown(&state, true));
    assert_int_equal(2, state.stage.next.number);
    assert_true(state_names_body(&state, &(struct body_name){ 6, ETAG_B }));
    state_promote(&state);
    assert_false(state.staged);
    assert_int_equal(2, state.now.number);
    assert_string_equal(ETAG_B, state.now.etag);
    assert_int_equal(0, state.old_count);
    state_release(&state);
}

static void what_is_discarded_leaves_its_body_as_old(void **unused)
{
    (void)unused;
    struct key_state state;
    state_init(&state);
    struct state_version a = with_body(ETAG_A, 5, 9000), b = with_body(ETAG_B, 5, 9000);
    struct state_stage first = stage_of("", &a), second = stage_of("", &b);
    state_set_stage(&state, &first);
    state_set_stage(&state, &first); /* the same again names the same body */
    assert_int_equal(0, state.old_count);
    state_set_stage(&state, &second);
    assert_int_equal(1, state.old_count);
    state_discard(&state);
    assert_int_equal(2, state.old_count);
    assert_string_equal(ETAG_A, state.old[0].etag);
    assert_string_equal(ETAG_B, state.old[1].etag);
    assert_int_equal(0, state.now.number);
    state_release(&state);
}

static void a_stage_without_changes_promotes_to_the_same(void **unused)
{
    (void)unused;
    struct key_state state;
    state_init(&state);
    struct state_version a = with_body(ETAG_A, 5, 9000);
    struct state_stage taken = { .token = 6, .txn = TXN };
    state_publish(&state, &a);
    state_set_stage(&state, &taken);
    assert_ptr_equal(&state.now, state_shown(&state, true));
    struct key_state again = assert_survives(&state);
    assert_true(again.staged);
    assert_false(again.stage.changes);
    assert_string_equal(TXN, again.stage.txn);
    state_promote(&again);
    assert_int_equal(1, again.now.number);
    assert_int_equal(0, again.old_count);
    state_release(&again);
    state_release(&state);
}

static void after_a_loss_no_number_comes_again(void **unused)
{
    (void)unused;
    struct key_state state = read_back("{\"lost\":true}");
    struct state_version a = version_of(ETAG_A, UINT64_C(2) << 32 | 1, VIEW("one"));
    struct state_version b = version_of(ETAG_B, UINT64_C(2) << 32 | 1, VIEW("two"));
    assert_true(state.lost);
    state_publish(&state, &a);
    assert_false(state.lost);
    assert_true(state.now.number == (UINT64_C(2) << 32 | 1));
    state_publish(&state, &b);
    assert_true(state.now.number == (UINT64_C(2) << 32 | 2));
    state_release(&state);
}

/* ---- JSON ---------------------------------------------------------------------------- */

static void a_key_that_was_never_written_takes_no_bytes(void **unused)
{
    (void)unused;
    struct key_state state = read_back("");
    assert_int_equal(0, state.now.number);
    assert_text("", &state);
    state_release(&state);
    state = read_back("{}");
    assert_text("", &state);
    state_release(&state);
}

static void the_document_reads_as_described(void **unused)
{
    (void)unused;
    static const char text[] =
        "{\"now\":{\"version\":1,\"token\":5,\"etag\":\"" ETAG_A
        "\",\"size\":6,\"updated_ms\":1770372000123,\"text\":\"a\\\"b\\n\xc3\xa9\"},"
        "\"stage\":{\"token\":6,\"txn\":\"" TXN
        "\",\"next\":{\"version\":2,\"token\":6,\"etag\":\"" ETAG_B
        "\",\"size\":9000,\"updated_ms\":1770372000123,\"body\":true}},"
        "\"old\":[\"4-" ETAG_C "\"]}";
    struct key_state state;
    state_init(&state);
    struct state_version zero = with_body(ETAG_C, 4, 9000);
    struct state_version a = version_of(ETAG_A, 5, VIEW("a\"b\n\xc3\xa9"));
    struct state_version b = with_body(ETAG_B, 6, 9000);
    struct state_stage stage = stage_of(TXN, &b);
    state_publish(&state, &zero);
    state.now.number = 0;
    state_publish(&state, &a);
    state_set_stage(&state, &stage);
    assert_text(text, &state);
    struct key_state again = assert_survives(&state);
    assert_same_version(&state.now, &again.now);
    assert_same_version(&state.stage.next, &again.stage.next);
    state_release(&again);
    state_release(&state);
}

/* The ETag of a version starts with its number. */
static void publish_numbered(struct key_state *state, unsigned number, bool remembered)
{
    char etag[NONCE_SIZE + 1];
    snprintf(etag, sizeof etag, "%04x%028x", number, 0);
    struct state_version version = version_of(etag, 5, VIEW(""));
    if (remembered)
        state_remember(state);
    state_publish(state, &version);
    assert_int_equal(number, state->now.number);
}

static void replaced_versions_are_known(void **unused)
{
    (void)unused;
    enum { LAST = STATE_RECENT_MAX + 9 };
    struct key_state state;
    state_init(&state);
    for (unsigned number = 1; number <= LAST; number++) {
        publish_numbered(&state, number, /* remembered */ true);
        struct key_state again = assert_survives(&state);
        for (unsigned other = 1; other <= LAST; other++) {
            char etag[NONCE_SIZE + 1];
            bool known = other <= number && number - other <= STATE_RECENT_MAX;
            snprintf(etag, sizeof etag, "%04x%028x", other, 0);
            assert_false(state_shows_other(&again, other, etag));
            assert_int_equal(known, state_shows_other(&again, other, ETAG_A));
        }
        state_release(&again);
    }
    state_release(&state);
}

/* A version between them that was not remembered, under a lease or by an older program. */
static void a_gap_is_not_bridged(void **unused)
{
    (void)unused;
    struct key_state state;
    state_init(&state);
    for (unsigned number = 1; number <= 9; number++)
        publish_numbered(&state, number, /* remembered */ number != 6);
    static const bool known[] = { [5] = false, [6] = true, [7] = true, [8] = true, [9] = true };
    for (unsigned number = 1; number <= 9; number++)
        assert_int_equal(known[number], state_shows_other(&state, number, ETAG_A));
    assert_false(state_shows_other(&state, 0, ETAG_A));
    assert_false(state_shows_other(&state, 10, ETAG_A));
    state_release(&state);
}

static void check_inline(struct view bytes, const char *member)
{
    struct key_state state;
    state_init(&state);
    struct state_version version = version_of(ETAG_A, 5, bytes);
    state_publish(&state, &version);
    struct buffer text = text_of(&state);
    if (!strstr(buffer_text(&text), member))
        fail_msg("no %s in %s", member, buffer_text(&text));
    buffer_release(&text);
    struct key_state again = assert_survives(&state);
    assert_same_version(&state.now, &again.now);
    state_release(&again);
    state_release(&state);
}

static void text_is_text_and_the_rest_is_base64(void **unused)
{
    (void)unused;
    check_inline(VIEW(""), ",\"text\":\"\"");
    check_inline(VIEW("{\"a\":1}\r\n\t"), ",\"text\":\"{\\\"a\\\":1}\\r\\n\\t\"");
    check_inline(VIEW("\xf0\x9f\x94\x91"), ",\"text\":\"\xf0\x9f\x94\x91\"");
    check_inline(VIEW("a\0b"), ",\"base64\":\"YQBi\"");
    check_inline(VIEW("\xff"), ",\"base64\":\"/w==\"");
    check_inline(VIEW("\x1b[1m"), ",\"base64\":");
    check_inline(VIEW("\xed\xa0\x80"), ",\"base64\":"); /* half a character */
}

static void a_removed_key_has_a_version(void **unused)
{
    (void)unused;
    struct key_state state;
    state_init(&state);
    struct state_version gone = version_of(ETAG_A, 5, VIEW(""));
    gone.removed = true;
    state_publish(&state, &gone);
    struct key_state again = assert_survives(&state);
    assert_true(again.now.removed);
    assert_int_equal(1, again.now.number);
    state_release(&again);
    state_release(&state);
}

static void unknown_members_survive(void **unused)
{
    (void)unused;
    struct key_state state = read_back(
        "{ \"x\" : [1, {\"y\":2}], \"now\": "
        "{\"p\":null,\"version\":3,\"token\":5,\"etag\":\"" ETAG_A
        "\",\"size\":2,\"q\":\"\\u0041\",\"updated_ms\":7,\"text\":\"\\u0068i\"}, \"z\":1.5,"
        "\"stage\":{\"s\":{},\"token\":6,\"txn\":\"" TXN "\"}}");
    assert_text("{\"now\":{\"version\":3,\"token\":5,\"etag\":\"" ETAG_A
                "\",\"size\":2,\"updated_ms\":7,\"text\":\"hi\",\"p\":null,\"q\":\"\\u0041\"},"
                "\"stage\":{\"token\":6,\"txn\":\"" TXN "\",\"s\":{}},"
                "\"x\":[1, {\"y\":2}],\"z\":1.5}",
                &state);
    struct state_version next = version_of(ETAG_B, 6, VIEW("new"));
    state_discard(&state);
    state_publish(&state, &next);
    assert_text("{\"now\":{\"version\":4,\"token\":6,\"etag\":\"" ETAG_B
                "\",\"size\":3,\"updated_ms\":1770372000123,\"text\":\"new\"},"
                "\"x\":[1, {\"y\":2}],\"z\":1.5}",
                &state);
    state_release(&state);
}

static void the_largest_states_fit(void **unused)
{
    (void)unused;
    static const char worst[] = { '"', '\x01', '\n', '\xff', 'a' };
    char bytes[STATE_INLINE_MAX];
    for (size_t i = 0; i < sizeof worst; i++) {
        struct key_state state;
        state_init(&state);
        memset(bytes, worst[i], sizeof bytes);
        struct view all = { bytes, sizeof bytes };
        for (uint64_t token = 1; token <= STATE_OLD_MAX + 1; token++) {
            struct state_version version = with_body(ETAG_C, UINT64_MAX - token, 1);
            state_publish(&state, &version);
        }
        state.now.number = INT64_MAX - STATE_RECENT_MAX - 9;
        for (int count = 0; count < STATE_RECENT_MAX; count++) {
            state_remember(&state);
            state.now.number++;
        }
        struct state_version a = version_of(ETAG_A, UINT64_MAX, all);
        struct state_version b = version_of(ETAG_B, UINT64_MAX, all);
        struct state_stage stage = stage_of(TXN, &b);
        state_publish(&state, &a);
        state_set_stage(&state, &stage);
        struct key_state again = assert_survives(&state);
        assert_same_version(&state.stage.next, &again.stage.next);
        state_release(&again);
        state_release(&state);
    }
}

static void what_does_not_fit_is_not_written(void **unused)
{
    (void)unused;
    struct buffer text = BUFFER_INIT(2 * TABLE_STATE_MAX);
    buffer_append(&text, VIEW("{\"x\":\""));
    while (text.size < TABLE_STATE_MAX - 2)
        buffer_append_byte(&text, 'x');
    buffer_append(&text, VIEW("\"}"));
    struct key_state state = read_back(buffer_text(&text));
    buffer_clear(&text);
    assert_true(state_write(&state, &text));
    assert_int_equal(TABLE_STATE_MAX, text.size);
    struct state_version a = version_of(ETAG_A, 5, VIEW(""));
    state_publish(&state, &a);
    buffer_clear(&text);
    assert_false(state_write(&state, &text));
    buffer_release(&text);
    state_release(&state);
}

#define HEAD "{\"now\":{\"version\":1,\"token\":5,\"etag\":\"" ETAG_A "\",\"updated_ms\":0,"

static void what_cannot_be_a_state_is_corrupt(void **unused)
{
    (void)unused;
    static const char *const texts[] = {
        "[]",
        "null",
        "{\"now\":7}",
        "{\"now\":{}}",
        "{} ,",
        "{\"lost\":1}",
        "{\"lost\":true,\"lost\":true}",
        HEAD "\"size\":2}}",
        HEAD "\"size\":2,\"text\":\"abc\"}}",
        HEAD "\"size\":2,\"text\":\"\\ud800\"}}",
        HEAD "\"size\":1,\"base64\":\"Zg\"}}",
        HEAD "\"size\":1,\"base64\":\"Zg==\",\"text\":\"f\"}}",
        HEAD "\"size\":1,\"text\":\"f\",\"body\":true}}",
        HEAD "\"size\":1,\"removed\":true}}",
        HEAD "\"size\":-1,\"body\":true}}",
        HEAD "\"size\":1.0,\"body\":true}}",
        HEAD "\"size\":1,\"body\":true},\"old\":[\"05-" ETAG_C "\"]}",
        HEAD "\"size\":1,\"body\":true},\"old\":[\"5-x\"]}",
        HEAD "\"size\":1,\"body\":true},\"old\":[5]}",
        HEAD "\"size\":1,\"body\":true},\"old\":{}}",
        HEAD "\"size\":1,\"body\":true},\"recent\":7}",
        HEAD "\"size\":1,\"body\":true},\"recent\":{\"etags\":\"\"}}",
        HEAD "\"size\":1,\"body\":true},\"recent\":{\"version\":9}}",
        HEAD "\"size\":1,\"body\":true},\"recent\":{\"version\":9,\"etags\":\"aaa\"}}",
        HEAD "\"size\":1,\"body\":true},\"recent\":{\"version\":9,\"etags\":\"AAAA\"}}",
        HEAD "\"size\":1,\"body\":true},\"recent\":{\"version\":1,\"etags\":\"aaaabbbb\"}}",
        HEAD "\"size\":1,\"body\":true},\"stage\":{\"token\":6}}",
        HEAD "\"size\":1,\"body\":true},\"stage\":{\"txn\":\"" TXN "\"}}",
        HEAD "\"size\":1,\"body\":true},\"stage\":{\"token\":6,\"txn\":\"../../etc\"}}",
        "{\"now\":{\"version\":0,\"token\":5,\"etag\":\"" ETAG_A
        "\",\"updated_ms\":0,\"size\":1,\"body\":true}}",
        "{\"now\":{\"version\":1,\"token\":5,\"etag\":\"../../../../../../../../../../xx"
        "\",\"updated_ms\":0,\"size\":1,\"body\":true}}",
        "{\"now\":{\"version\":1,\"token\":5,\"etag\":\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
        "\",\"updated_ms\":0,\"size\":1,\"body\":true}}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct key_state state;
        struct hf_error error;
        state_init(&state);
        enum hf_status status = state_read(view_of(texts[i]), &state, &error);
        if (status != HF_CORRUPT)
            fail_msg("%s: %s", hf_status_name(status), texts[i]);
        assert_int_equal(0, state.now.number);
        assert_false(state.staged);
        state_release(&state);
    }
    struct key_state good = read_back(HEAD "\"size\":1,\"body\":true}}");
    state_release(&good);
}

/* What is in use is not old, whatever the document says: it must not be deleted. */
static void a_body_in_use_is_not_old(void **unused)
{
    (void)unused;
    struct key_state state = read_back(HEAD "\"size\":1,\"body\":true},\"old\":[\"5-" ETAG_A
                                            "\",\"5-" ETAG_C "\"]}");
    assert_int_equal(1, state.old_count);
    assert_string_equal(ETAG_C, state.old[0].etag);
    state_release(&state);
}

static void a_seal_survives(void **unused)
{
    (void)unused;
    struct key_state state =
        read_back("{\"stage\":{\"token\":6,\"txn\":\"" TXN "\",\"sealed\":true}}");
    struct buffer text = BUFFER_INIT(TABLE_STATE_MAX);
    assert_true(state.stage.sealed);
    assert_true(state_write(&state, &text));
    assert_non_null(strstr(buffer_text(&text), "\"sealed\":true"));
    buffer_release(&text);
    state_release(&state);
}

static const char *a_whole_state(void)
{
    return "{\"now\":{\"version\":1,\"token\":5,\"etag\":\"" ETAG_A
           "\",\"size\":2,\"updated_ms\":9,\"base64\":\"/wA=\",\"u\":[1]},"
           "\"stage\":{\"token\":6,\"txn\":\"" TXN "\",\"next\":{\"version\":2,\"token\":6,"
           "\"etag\":\"" ETAG_B "\",\"size\":3,\"updated_ms\":9,\"text\":\"a\\n\\u0062\"}},"
           "\"old\":[\"4-" ETAG_C "\"],\"theirs\":{\"a\":\"b\"}}";
}

static void every_truncation_is_corrupt(void **unused)
{
    (void)unused;
    struct view whole = view_of(a_whole_state());
    for (size_t size = 1; size < whole.size; size++) {
        struct key_state state;
        struct hf_error error;
        char *copy = malloc(size); /* exactly, so that a sanitizer sees a read past it */
        memcpy(copy, whole.data, size);
        state_init(&state);
        assert_int_equal(HF_CORRUPT, state_read((struct view){ copy, size }, &state, &error));
        state_release(&state);
        free(copy);
    }
}

/* Each byte becomes each of a few others: it is a state or it is corrupt, and what is one survives
 * its own JSON. */
static void damaged_bytes_do_no_harm(void **unused)
{
    (void)unused;
    static const char others[] = { '"', '{', '}',  '[', ',',  ':',
                                   '0', '9', '\\', 'f', '\0', '\xff' };
    struct view whole = view_of(a_whole_state());
    char *copy = strdup(whole.data);
    size_t taken = 0;
    for (size_t i = 0; i < whole.size * sizeof others; i++) {
        struct key_state state;
        struct hf_error error;
        copy[i / sizeof others] = others[i % sizeof others];
        state_init(&state);
        enum hf_status status = state_read((struct view){ copy, whole.size }, &state, &error);
        if (status == HF_OK) {
            struct key_state again = assert_survives(&state);
            state_release(&again);
            taken++;
        } else {
            assert_int_equal(HF_CORRUPT, status);
        }
        state_release(&state);
        copy[i / sizeof others] = whole.data[i / sizeof others];
    }
    assert_true(taken > 0);
    free(copy);
}

static void every_allocation_may_fail(void **unused)
{
    (void)unused;
    struct view whole = view_of(a_whole_state());
    long failures = 0;
    for (long n = 0;; n++) {
        struct key_state state;
        struct hf_error error;
        struct buffer text = BUFFER_INIT(TABLE_STATE_MAX);
        state_init(&state);
        alloc_fail_after(n);
        enum hf_status status = state_read(whole, &state, &error);
        bool written = status == HF_OK && state_write(&state, &text);
        bool failed = alloc_stop();
        assert_true(failed == !written);
        if (status != HF_OK)
            assert_int_equal(HF_UNAVAILABLE, status);
        buffer_release(&text);
        state_release(&state);
        if (!failed)
            break;
        failures++;
    }
    assert_true(failures >= 2);
}

static void names_of_bodies_are_read_back(void **unused)
{
    (void)unused;
    struct body_name name = { UINT64_MAX, ETAG_A }, back = { 0, "" };
    char text[BODY_NAME_MAX + 1];
    assert_string_equal("18446744073709551615-" ETAG_A, body_name_text(&name, text));
    assert_true(body_name_parse(view_of(text), &back));
    assert_true(back.token == UINT64_MAX);
    assert_string_equal(ETAG_A, back.etag);
    assert_true(body_name_parse(VIEW("0-" ETAG_B), &back));
    static const char *const others[] = { "",
                                          "5",
                                          "-" ETAG_A,
                                          "5-" ETAG_A "a",
                                          "5-../" ETAG_A,
                                          "00-" ETAG_A,
                                          "+5-" ETAG_A,
                                          "18446744073709551616-" ETAG_A };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (body_name_parse(view_of(others[i]), &back))
            fail_msg("'%s' was taken", others[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("versions count from one", versions_count_from_one),
        IT("a body that is replaced becomes old, until it is forgotten",
           a_body_that_is_replaced_becomes_old),
        IT("of too many old bodies the oldest is left to the sweeper",
           of_too_many_old_bodies_the_oldest_is_left),
        IT("a stage is shown when it is committed, and promoted",
           a_stage_is_shown_when_it_is_committed),
        IT("what is discarded, or staged over, leaves its body as old",
           what_is_discarded_leaves_its_body_as_old),
        IT("a stage without changes leaves the version as it was",
           a_stage_without_changes_promotes_to_the_same),
        IT("after a loss no number of a version comes again",
           after_a_loss_no_number_comes_again),
        IT("a key that was never written takes no bytes",
           a_key_that_was_never_written_takes_no_bytes),
        IT("the document reads as described", the_document_reads_as_described),
        IT("versions that were replaced are known by their numbers, the latest of them",
           replaced_versions_are_known),
        IT("a version that was not remembered ends the list", a_gap_is_not_bridged),
        IT("text is written as text, the rest as base64", text_is_text_and_the_rest_is_base64),
        IT("a removed key has a version", a_removed_key_has_a_version),
        IT("members that we do not know survive, of the state, its versions and its stage",
           unknown_members_survive),
        IT("the largest states fit, whatever their bytes", the_largest_states_fit),
        IT("what does not fit is not written", what_does_not_fit_is_not_written),
        IT("what cannot be a state is corrupt", what_cannot_be_a_state_is_corrupt),
        IT("a body in use is not old", a_body_in_use_is_not_old),
        IT("a seal survives", a_seal_survives),
        IT("every truncation is corrupt", every_truncation_is_corrupt),
        IT("damaged bytes do no harm", damaged_bytes_do_no_harm),
        IT("every allocation may fail", every_allocation_may_fail),
        IT("names of bodies are read back, and no others", names_of_bodies_are_read_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
