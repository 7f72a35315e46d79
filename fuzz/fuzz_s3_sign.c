/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_s3_sign.c: builds the canonical request from an arbitrary key, query and header. It must
 * have one line per item, sorted, and no input may add a line that was not signed. */
#include "base/check.h"
#include "base/parse.h"
#include "fuzz.h"
#include "store/s3/sign.h"

/* Only unreserved characters, "/" and %XX, which decode to the input. */
static void encoding_holds(struct view text, bool keep_slash)
{
    struct buffer encoded = BUFFER_INIT(1 << 20);
    size_t at = 0;
    check(http_encode(&encoded, text, keep_slash));
    for (size_t i = 0; i < text.size; i++) {
        char c = encoded.data[at++];
        check(c != ' ' && c != '+' && c != '&' && c != '=' && c != '?' && c != '#');
        if (c == '%') {
            c = (char)(hex_digit(encoded.data[at]) * 16 + hex_digit(encoded.data[at + 1]));
            at += 2;
        }
        check(c == text.data[i]);
    }
    check(at == encoded.size);
    buffer_release(&encoded);
}

static size_t lines_of(struct view text)
{
    size_t lines = 1;
    for (size_t i = 0; i < text.size; i++)
        lines += text.data[i] == '\n';
    return lines;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 4096)
        return 0;
    struct view rest = { (const char *)data, size };
    struct view key = view_cut(&rest, '\n');
    struct view value = view_cut(&rest, '\n');
    struct view header = view_cut(&rest, '\n');
    encoding_holds(key, /* keep_slash */ true);
    encoding_holds(value, /* keep_slash */ false);

    struct buffer path = BUFFER_INIT(1 << 20), query = BUFFER_INIT(1 << 20);
    struct buffer canonical = BUFFER_INIT(1 << 20), signature = BUFFER_INIT(1 << 20);
    const struct http_pair parameters[] = { { VIEW("prefix"), value }, { value, key } };
    const struct http_pair headers[] = { { VIEW("x-amz-date"), VIEW("20130524T000000Z") },
                                         { VIEW("if-match"), header },
                                         { VIEW("host"), VIEW("example.com") } };
    buffer_append_byte(&path, '/');
    check(http_encode(&path, key, /* keep_slash */ true));
    check(http_query(&query, parameters, 2));
    const struct s3_signing signing = { .method = VIEW("PUT"),
                                        .path = buffer_view(&path),
                                        .query = buffer_view(&query),
                                        .headers = headers,
                                        .header_count = 3,
                                        .payload = VIEW(S3_UNSIGNED_PAYLOAD),
                                        .date = VIEW("20130524T000000Z"),
                                        .region = VIEW("us-east-1"),
                                        .service = VIEW("s3"),
                                        .access_key = VIEW("key") };
    struct s3_signing_key signing_key = { { 0 } };
    check(s3_canonical_request(&signing, &canonical));
    check(lines_of(buffer_view(&canonical)) == 9);
    if (s3_sign(&signing, &signing_key, &signature))
        check(lines_of(buffer_view(&signature)) == 1);
    buffer_release(&path);
    buffer_release(&query);
    buffer_release(&canonical);
    buffer_release(&signature);
    return 0;
}
