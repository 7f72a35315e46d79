/* SPDX-License-Identifier: Apache-2.0 */
/* merge_key_test.c: keys: their descriptions, and encodings whose byte order and order codes must
 * agree with a slow comparison that knows nothing of them. */
#include "alloc.h"
#include "merge/format.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>

#define TRIALS 60000

/* ---- Descriptions -------------------------------------------------------------------- */

/* "name number desc" of each part, separated by "; ". */
static const char *shown(const char *text, char *to, size_t size)
{
    char space[KEY_TEXT_MAX];
    struct merge_key key;
    struct hf_error error;
    size_t used = 0;
    assert_status(HF_OK, key_parse(view_of(text), true, space, &key, &error), &error);
    for (size_t i = 0; i < key.count; i++) {
        const struct key_part *part = &key.parts[i];
        used += (size_t)snprintf(to + used, size - used, "%s[%.*s]%s%s", i ? "; " : "",
                                 VIEW_ARGS(part->field.name), part->is_number ? " number" : "",
                                 part->is_descending ? " desc" : "");
    }
    snprintf(to + used, size - used, "%s", key.is_encoded ? " encoded" : "");
    return to;
}

static void a_key_is_described_by_fields_and_orders(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        { "id", "[id]" },
        { "id:number", "[id] number encoded" },
        { "id:desc", "[id] desc encoded" },
        { "id:number:desc", "[id] number desc encoded" },
        { "a,b", "[a]; [b] encoded" },
        { "a:desc,b:number,c", "[a] desc; [b] number; [c] encoded" },
        { "a\\,b", "[a,b]" },
        { "a\\:b", "[a:b]" },
        { "a\\\\b", "[a\\b]" },
        { "a\\:desc:desc,\\,", "[a:desc] desc; [,] encoded" },
        { "", "[]" }, /* a member of a JSON object may have an empty name */
        { "number", "[number]" },
        { "3", "[3]" },
    };
    char text[400];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_string_equal(shown(cases[i][0], text, sizeof text), cases[i][1]);
}

static void any_name_can_be_written(void **state)
{
    (void)state;
    char space[KEY_TEXT_MAX], name[9];
    struct hf_error error;
    for (unsigned i = 0; i < 4096; i++) {
        size_t size = 0;
        for (unsigned rest = i; rest > 0; rest /= 4)
            name[size++] = ",:\\a"[rest % 4];
        struct buffer text = BUFFER_INIT(KEY_TEXT_MAX);
        struct merge_key key;
        assert_true(key_append_name(&text, (struct view){ name, size }));
        assert_status(HF_OK, key_parse(buffer_view(&text), true, space, &key, &error), &error);
        assert_int_equal(key.count, 1);
        assert_false(key.is_encoded);
        assert_true(view_equal(key.parts[0].field.name, (struct view){ name, size }));
        buffer_release(&text);
    }
}

static void a_description_that_makes_no_sense_is_refused(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "a:up",
        "a:desc:number",
        "a:number:number",
        "a:desc:desc",
        "a:",
        "a,a",
        "a\\",
        "a\\n",
        "a:number\\",
        "a,b:desc,a:desc",
        "a:Desc",
        "a:num\\:ber",
        "a,b,c,d,e,f,g,h,i",
    };
    char space[KEY_TEXT_MAX];
    struct merge_key key;
    struct hf_error error;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (key_parse(view_of(cases[i]), true, space, &key, &error) != HF_INVALID)
            fail_msg("%s was accepted", cases[i]);
    assert_status(HF_INVALID, key_parse(VIEW("1,01"), false, space, &key, &error), &error);
    assert_status(HF_INVALID, key_parse(VIEW("a,"), false, space, &key, &error), &error);
    char *text = calloc(1, KEY_TEXT_MAX + 2);
    assert_non_null(text);
    memset(text, 'a', KEY_TEXT_MAX);
    assert_status(HF_OK, key_parse(view_of(text), true, space, &key, &error), &error);
    text[KEY_TEXT_MAX] = 'a';
    assert_status(HF_INVALID, key_parse(view_of(text), true, space, &key, &error), &error);
    free(text);
}

/* ---- A slow comparison ------------------------------------------------------------------ */

/* A number as 2 * WIDTH decimal digits around a point, which is large enough for those drawn. */
#define WIDTH 60

struct slow_number {
    int sign;
    char digits[2 * WIDTH];
};

/* Reads what draw_number writes: no exponent beyond what WIDTH holds. */
static struct slow_number slow_read(const char *text)
{
    struct slow_number number = { .sign = *text == '-' ? -1 : 1 };
    char digits[2 * WIDTH + 1];
    int count = 0, point = -1;
    text += *text == '-' || *text == '+';
    for (; *text && *text != 'e' && *text != 'E'; text++) {
        if (*text == '.')
            point = count;
        else
            digits[count++] = *text;
    }
    if (point < 0)
        point = count;
    if (*text)
        point += (int)strtol(text + 1, NULL, 10);
    memset(number.digits, '0', sizeof number.digits);
    bool zero = true;
    for (int i = 0; i < count; i++) {
        int at = WIDTH - point + i;
        if (digits[i] == '0')
            continue;
        zero = false;
        assert_true(at >= 0 && at < 2 * WIDTH);
        number.digits[at] = digits[i];
    }
    if (zero)
        number.sign = 0;
    return number;
}

static int slow_compare_numbers(const char *a, const char *b)
{
    struct slow_number x = slow_read(a), y = slow_read(b);
    if (x.sign != y.sign)
        return x.sign < y.sign ? -1 : 1;
    int order = x.sign == 0 ? 0 : memcmp(x.digits, y.digits, sizeof x.digits);
    order = order < 0 ? -1 : order > 0;
    return x.sign < 0 ? -order : order;
}

static int slow_compare_texts(struct view a, struct view b)
{
    int order = view_compare(a, b);
    return order < 0 ? -1 : order > 0;
}

/* ---- Values ------------------------------------------------------------------------------ */

static uint32_t draw(uint64_t *seed, uint32_t bound)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33) % bound;
}

struct drawn {
    char bytes[64];
    size_t size;
};

static void draw_number(uint64_t *seed, struct drawn *to)
{
    static const char *const signs[] = { "", "", "-", "+" };
    static const char *const exponents[] = { "", "", "", "e0", "e5", "E-7", "e+20", "e-20" };
    char whole[24], fraction[24] = "";
    uint32_t size = 1 + draw(seed, 1 + draw(seed, 20)), more = draw(seed, 8);
    for (uint32_t i = 0; i < size; i++)
        whole[i] = "0123456789009"[draw(seed, draw(seed, 2) ? 13 : 2)];
    whole[size] = '\0';
    if (more > 4) {
        fraction[0] = '.';
        for (uint32_t i = 1; i <= more; i++)
            fraction[i] = "0190"[draw(seed, 4)];
        fraction[more + 1] = '\0';
    }
    to->size = (size_t)snprintf(to->bytes, sizeof to->bytes, "%s%s%s%s", signs[draw(seed, 4)],
                                whole, fraction, exponents[draw(seed, 8)]);
}

static void draw_text(uint64_t *seed, struct drawn *to)
{
    static const char atoms[] = { 0, 1, (char)0xff, (char)0xfe, 'a', 'b' };
    to->size = draw(seed, 1 + draw(seed, 40));
    for (size_t i = 0; i < to->size; i++)
        to->bytes[i] = i < 20 && draw(seed, 3) ? 'a' : atoms[draw(seed, sizeof atoms)];
    to->bytes[to->size] = '\0';
}

/* A key of up to three parts, and two rows of values for it; some of them equal. */
struct pair {
    struct merge_key key;
    struct drawn values[2][3];
};

static void draw_pair(uint64_t *seed, struct pair *pair)
{
    pair->key = (struct merge_key){ .count = 1 + draw(seed, 3), .is_encoded = true };
    for (size_t i = 0; i < pair->key.count; i++) {
        struct key_part *part = &pair->key.parts[i];
        part->is_number = draw(seed, 2);
        part->is_descending = draw(seed, 2);
        for (int side = 0; side < 2; side++)
            (part->is_number ? draw_number : draw_text)(seed, &pair->values[side][i]);
        if (draw(seed, 2))
            pair->values[1][i] = pair->values[0][i];
    }
}

static int slow_compare(const struct pair *pair)
{
    for (size_t i = 0; i < pair->key.count; i++) {
        const struct drawn *a = &pair->values[0][i], *b = &pair->values[1][i];
        int order = pair->key.parts[i].is_number
                        ? slow_compare_numbers(a->bytes, b->bytes)
                        : slow_compare_texts((struct view){ a->bytes, a->size },
                                             (struct view){ b->bytes, b->size });
        if (order != 0)
            return pair->key.parts[i].is_descending ? -order : order;
    }
    return 0;
}

static struct view encode(const struct pair *pair, int side, struct buffer *to)
{
    for (size_t i = 0; i < pair->key.count; i++) {
        const struct drawn *value = &pair->values[side][i];
        assert_true(
            key_append(to, &pair->key.parts[i], (struct view){ value->bytes, value->size }));
    }
    assert_true(buffer_reserve(to, KEY_SLACK));
    return buffer_view(to);
}

/* ---- Order ------------------------------------------------------------------------------- */

static void encoded_keys_are_ordered_as_a_naive_comparison_says(void **state)
{
    (void)state;
    uint64_t seed = 1;
    size_t equal = 0;
    for (size_t i = 0; i < TRIALS; i++) {
        struct pair pair;
        struct buffer texts[2] = { BUFFER_INIT(4096), BUFFER_INIT(4096) };
        draw_pair(&seed, &pair);
        struct view a = encode(&pair, 0, &texts[0]), b = encode(&pair, 1, &texts[1]);
        int wanted = slow_compare(&pair), order = slow_compare_texts(a, b);
        if (order != wanted)
            fail_msg("trial %zu: %d, not %d: first values '%s' and '%s'", i, order, wanted,
                     pair.values[0][0].bytes, pair.values[1][0].bytes);
        equal += wanted == 0;
        order_code code = 0;
        bool is_greater = order_against(a, b, 0, &code);
        assert_int_equal(is_greater, wanted <= 0);
        if (is_greater)
            assert_int_equal(code == CODE_EQUAL, wanted == 0);
        assert_true(a.size <= 2 * sizeof pair.values[0] + KEY_ENCODING_EXTRA);
        buffer_release(&texts[0]);
        buffer_release(&texts[1]);
    }
    assert_in_range(equal, TRIALS / 100, TRIALS / 2); /* else the test is too easy */
}

static int compare_views(const void *a, const void *b)
{
    return view_compare(*(const struct view *)a, *(const struct view *)b);
}

/* Of two keys with the same base, the one with the smaller code is smaller. */
static void codes_of_encoded_keys_decide_as_the_keys_do(void **state)
{
    (void)state;
    enum { COUNT = 300 };
    static struct buffer texts[COUNT];
    static struct view keys[COUNT];
    uint64_t seed = 7;
    struct pair pair;
    draw_pair(&seed, &pair);
    pair.key.count = 3;
    for (size_t i = 0; i < 3; i++)
        pair.key.parts[i] = (struct key_part){ .is_number = i == 1, .is_descending = i != 1 };
    for (size_t i = 0; i < COUNT; i++) {
        texts[i] = BUFFER_INIT(4096);
        draw_text(&seed, &pair.values[0][0]);
        draw_number(&seed, &pair.values[0][1]);
        draw_text(&seed, &pair.values[0][2]);
        keys[i] = encode(&pair, 0, &texts[i]);
    }
    qsort(keys, COUNT, sizeof keys[0], compare_views);
    for (size_t base = 0; base < COUNT; base += 17) {
        for (size_t i = base; i + 1 < COUNT; i++) {
            order_code code = 0, next = 0;
            assert_true(order_against(keys[base], keys[i], 0, &code));
            assert_true(order_against(keys[base], keys[i + 1], 0, &next));
            assert_true(code <= next);
        }
    }
    for (size_t i = 0; i < COUNT; i++)
        buffer_release(&texts[i]);
}

static void only_numbers_are_numbers(void **state)
{
    (void)state;
    static const char *const good[] = {
        "0", "-0", "+7", "007", "1.5", "1e5", "1E+5", "1.0e-05", "0e999999999", "-1e-999999999"
    };
    static const char *const bad[] = { "",    "-",    "+",     ".5",   "1.",
                                       "1e",  "1e-",  "e5",    "NaN",  "inf",
                                       "0x1", " 1",   "1 ",    "1_0",  "1,5",
                                       "+-1", "1e5.", "1e1e1", "1.5.", "1e9999999999" };
    const struct key_part part = { .is_number = true };
    struct buffer to = BUFFER_INIT(1024);
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        if (!key_append(&to, &part, view_of(good[i])))
            fail_msg("'%s' was refused", good[i]);
    buffer_clear(&to);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (key_append(&to, &part, view_of(bad[i])))
            fail_msg("'%s' was accepted", bad[i]);
    assert_int_equal(to.size, 0);
    buffer_release(&to);
}

static void the_size_of_a_number_does_not_matter(void **state)
{
    (void)state;
    enum { DIGITS = 100000 };
    const struct key_part part = { .is_number = true };
    struct buffer a = BUFFER_INIT(2 * DIGITS), b = BUFFER_INIT(2 * DIGITS);
    char *text = malloc(DIGITS);
    assert_non_null(text);
    memset(text, '9', DIGITS);
    assert_true(key_append(&a, &part, (struct view){ text, DIGITS }));
    text[DIGITS - 1] = '8';
    assert_true(key_append(&b, &part, (struct view){ text, DIGITS }));
    assert_true(view_compare(buffer_view(&a), buffer_view(&b)) > 0);
    assert_true(a.size <= DIGITS + KEY_ENCODING_EXTRA);
    free(text);
    buffer_release(&a);
    buffer_release(&b);
}

static void an_encoding_without_memory_is_marked(void **state)
{
    (void)state;
    const struct key_part part = { .is_number = true };
    struct buffer to = BUFFER_INIT(1024);
    alloc_fail_after(0);
    key_append(&to, &part, VIEW("12"));
    assert_true(alloc_stop());
    assert_true(to.failed);
    buffer_release(&to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("a key is described by fields and orders", a_key_is_described_by_fields_and_orders),
        IT("any name can be written", any_name_can_be_written),
        IT("a description that makes no sense is refused",
           a_description_that_makes_no_sense_is_refused),
        IT("encoded keys are ordered as a naive comparison says",
           encoded_keys_are_ordered_as_a_naive_comparison_says),
        IT("codes of encoded keys decide as the keys do",
           codes_of_encoded_keys_decide_as_the_keys_do),
        IT("only numbers are numbers", only_numbers_are_numbers),
        IT("the size of a number does not matter", the_size_of_a_number_does_not_matter),
        IT("an encoding without memory is marked", an_encoding_without_memory_is_marked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
