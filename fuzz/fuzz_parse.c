/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_parse.c: parses durations, sizes, times and numbers. An accepted value must print as a
 * text that is read back as the same value. A refused one must leave the output unchanged and
 * have a reason. */
#include "base/check.h"
#include "base/parse.h"
#include "fuzz.h"

#include <inttypes.h>
#include <stdio.h>

#define UNTOUCHED 0x5ca1ab1e

static void check_refusal(enum hf_status status, const struct hf_error *error, bool untouched)
{
    check(status == HF_INVALID && error->status == HF_INVALID);
    check(error->why[0] != '\0' && memchr(error->why, '\0', sizeof error->why));
    check(untouched);
}

static void span_holds(struct view text)
{
    struct span span = { UNTOUCHED }, back = { -1 };
    struct hf_error error;
    enum hf_status status = parse_span(text, &span, &error);
    if (status != HF_OK) {
        check_refusal(status, &error, span.us == UNTOUCHED);
        return;
    }
    char printed[SPAN_TEXT_MAX];
    check(span.us >= 0);
    check(parse_span(view_of(span_text(span, printed)), &back, &error) == HF_OK);
    check(back.us == span.us);
}

static void size_holds(struct view text)
{
    uint64_t bytes = UNTOUCHED, back = 0;
    struct hf_error error;
    enum hf_status status = parse_size(text, &bytes, &error);
    if (status != HF_OK) {
        check_refusal(status, &error, bytes == UNTOUCHED);
        return;
    }
    char printed[32];
    snprintf(printed, sizeof printed, "%" PRIu64, bytes);
    check(parse_size(view_of(printed), &back, &error) == HF_OK && back == bytes);
    check(parse_u64(view_of(printed), bytes, &back, &error) == HF_OK && back == bytes);
    check(size_text(bytes, printed)[0] != '\0');
}

static void time_holds(struct view text)
{
    struct wall_time time = { UNTOUCHED }, back = { -1 };
    struct hf_error error;
    enum hf_status status = parse_time(text, &time, &error);
    if (status != HF_OK) {
        check_refusal(status, &error, time.us == UNTOUCHED);
        return;
    }
    char printed[TIME_TEXT_MAX], reprinted[TIME_TEXT_MAX];
    check(parse_time(view_of(time_text(time, printed)), &back, &error) == HF_OK);
    check(back.us <= time.us && time.us - back.us < 1000);
    check(view_equal(view_of(printed), view_of(time_text(back, reprinted))));
}

static void number_holds(struct view text)
{
    uint64_t value = UNTOUCHED, back = 0;
    struct hf_error error;
    enum hf_status status = parse_u64(text, UINT64_MAX, &value, &error);
    if (status != HF_OK) {
        check_refusal(status, &error, value == UNTOUCHED);
        return;
    }
    char printed[32];
    snprintf(printed, sizeof printed, "%" PRIu64, value);
    check(parse_u64(view_of(printed), value, &back, &error) == HF_OK && back == value);
    if (value > 0)
        check(parse_u64(view_of(printed), value - 1, &back, &error) == HF_INVALID);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct view text = { (const char *)data, size };
    span_holds(text);
    size_holds(text);
    time_holds(text);
    number_holds(text);
    bool on;
    check(parse_switch(text, &on, NULL) == HF_INVALID || size == 2 || size == 3);
    return 0;
}
