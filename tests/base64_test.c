/* SPDX-License-Identifier: Apache-2.0 */
/* base64_test.c: Base64 encoding and strict decoding. */
#include "base/base64.h"
#include "test.h"

static struct view bytes_of(const char *data, size_t size)
{
    return (struct view){ data, size };
}

static void encodes_as_the_standard_says(void **state)
{
    (void)state;
    static const struct {
        const char *bytes, *text;
    } rows[] = {
        { "", "" },
        { "f", "Zg==" },
        { "fo", "Zm8=" },
        { "foo", "Zm9v" },
        { "foob", "Zm9vYg==" },
        { "fooba", "Zm9vYmE=" },
        { "foobar", "Zm9vYmFy" },
        { "\xfb\xff\xbf", "+/+/" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[16], bytes[16];
        size_t size = 99;
        base64_encode(view_of(rows[i].bytes), text);
        assert_string_equal(rows[i].text, text);
        assert_int_equal(BASE64_SIZE(strlen(rows[i].bytes)), strlen(text));
        assert_true(base64_decode(view_of(text), bytes, &size));
        assert_true(view_equal(view_of(rows[i].bytes), bytes_of(bytes, size)));
    }
}

static void all_bytes_survive(void **state)
{
    (void)state;
    char bytes[300], text[BASE64_SIZE(sizeof bytes) + 1], back[sizeof text];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(unsigned char)(i * 7);
    for (size_t size = 0; size <= sizeof bytes; size++) {
        size_t back_size = 0;
        base64_encode(bytes_of(bytes, size), text);
        assert_true(base64_decode(view_of(text), back, &back_size));
        assert_true(view_equal(bytes_of(bytes, size), bytes_of(back, back_size)));
    }
}

static void what_is_not_canonical_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "Z",        "Zg",   "Zg=",  "Zg==\n", "Zm9v=",   "====", "Z===", "=Zg=", "Zg==Zg==",
        "Zm8=Zm9v", "Z g=", "Zm9-", "Zm9_",   "Zm\x80v", "Zh==", "Zm9=", "Zg=v", "Zm9v====",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char bytes[16];
        size_t size = 99;
        if (base64_decode(view_of(texts[i]), bytes, &size))
            fail_msg("'%s' was taken", texts[i]);
        assert_int_equal(99, size);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("bytes are encoded as RFC 4648 says", encodes_as_the_standard_says),
        IT("all bytes survive, at every size", all_bytes_survive),
        IT("what is not the one text of some bytes is refused",
           what_is_not_canonical_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
