/* SPDX-License-Identifier: Apache-2.0 */
/* s3_sign_test.c: compares signatures with the examples that AWS publishes, and tests the
 * encodings they use. */
#include "base/parse.h"
#include "store/s3/sign.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>

#define EMPTY S3_EMPTY_PAYLOAD

/* The examples of the S3 documentation share keys, day and bucket. */
struct example {
    const char *method;
    const char *path;
    struct http_pair parameters[3];
    size_t parameter_count;
    struct http_pair headers[6];
    size_t header_count;
    const char *payload;
    const char *service;
    const char *date;
    const char *access_key;
    const char *secret;
    const char *signature;
};

#define S3_KEYS                                                                        \
    .service = "s3", .date = "20130524T000000Z", .access_key = "AKIAIOSFODNN7EXAMPLE", \
    .secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
#define SUITE_KEYS                                                                 \
    .service = "service", .date = "20150830T123600Z", .access_key = "AKIDEXAMPLE", \
    .secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
#define TEXT(literal)                      \
    {                                      \
        "" literal "", sizeof(literal) - 1 \
    } /* VIEW, for static tables */
#define HEADER(name, value)     \
    {                           \
        TEXT(name), TEXT(value) \
    }
#define S3_HOST HEADER("host", "examplebucket.s3.amazonaws.com")
#define S3_DATE HEADER("x-amz-date", "20130524T000000Z")

static const struct example examples[] = {
    { .method = "GET",
      .path = "/test.txt",
      .headers = { S3_HOST, HEADER("range", "bytes=0-9"), HEADER("x-amz-content-sha256", EMPTY),
                   S3_DATE },
      .header_count = 4,
      .payload = EMPTY,
      .signature = "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
      S3_KEYS },
    { .method = "PUT",
      .path = "/test%24file.text",
      .headers = { HEADER("x-amz-storage-class", "REDUCED_REDUNDANCY"),
                   HEADER("x-amz-content-sha256",
                          "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072"),
                   S3_DATE, S3_HOST, HEADER("date", "Fri, 24 May 2013 00:00:00 GMT") },
      .header_count = 5,
      .payload = "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072",
      .signature = "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
      S3_KEYS },
    { .method = "GET",
      .path = "/",
      .parameters = { HEADER("lifecycle", "") },
      .parameter_count = 1,
      .headers = { S3_HOST, HEADER("x-amz-content-sha256", EMPTY), S3_DATE },
      .header_count = 3,
      .payload = EMPTY,
      .signature = "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
      S3_KEYS },
    { .method = "GET",
      .path = "/",
      .parameters = { HEADER("prefix", "J"), HEADER("max-keys", "2") },
      .parameter_count = 2,
      .headers = { S3_HOST, HEADER("x-amz-content-sha256", EMPTY), S3_DATE },
      .header_count = 3,
      .payload = EMPTY,
      .signature = "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
      S3_KEYS },
    { .method = "GET",
      .path = "/",
      .headers = { HEADER("host", "example.amazonaws.com"),
                   HEADER("x-amz-date", "20150830T123600Z") },
      .header_count = 2,
      .payload = EMPTY,
      .signature = "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
      SUITE_KEYS },
    { .method = "GET",
      .path = "/",
      .parameters = { HEADER("Param2", "value2"), HEADER("Param1", "value1") },
      .parameter_count = 2,
      .headers = { HEADER("x-amz-date", "20150830T123600Z"),
                   HEADER("host", "example.amazonaws.com") },
      .header_count = 2,
      .payload = EMPTY,
      .signature = "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
      SUITE_KEYS },
};

static void sign_example(const struct example *example, struct buffer *ret_value)
{
    struct buffer query = BUFFER_INIT(1024);
    struct s3_signing_key key;
    assert_true(http_query(&query, example->parameters, example->parameter_count));
    struct s3_signing signing = {
        .method = view_of(example->method),
        .path = view_of(example->path),
        .query = buffer_view(&query),
        .headers = example->headers,
        .header_count = example->header_count,
        .payload = view_of(example->payload),
        .date = view_of(example->date),
        .region = VIEW("us-east-1"),
        .service = view_of(example->service),
        .access_key = view_of(example->access_key),
    };
    assert_true(s3_signing_key(S3_SCHEME_AWS, view_of(example->secret),
                               view_first(view_of(example->date), S3_DAY_SIZE),
                               VIEW("us-east-1"), view_of(example->service), &key));
    assert_true(s3_sign(&signing, &key, ret_value));
    buffer_release(&query);
}

static void signs_as_published(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++) {
        struct buffer value = BUFFER_INIT(4096);
        sign_example(&examples[i], &value);
        const char *text = buffer_text(&value);
        const char *signature = strstr(text, "Signature=");
        assert_non_null(signature);
        assert_string_equal(signature + strlen("Signature="), examples[i].signature);
        buffer_release(&value);
    }
}

static void authorization_names_scope_and_headers(void **state)
{
    (void)state;
    struct buffer value = BUFFER_INIT(4096);
    sign_example(&examples[0], &value);
    assert_string_equal(
        buffer_text(&value),
        "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
        "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, "
        "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
    buffer_release(&value);
}

static void canonical_request_is_as_ruled(void **state)
{
    (void)state;
    const struct http_pair headers[] = { HEADER("x-amz-date", "20150830T123600Z"),
                                         HEADER("my-header", "  a   b  c "),
                                         HEADER("host", "example.com") };
    const struct s3_signing signing = { .method = VIEW("PUT"),
                                        .path = VIEW("/a%20b"),
                                        .query = VIEW("x=1"),
                                        .headers = headers,
                                        .header_count = 3,
                                        .payload = VIEW("HASH") };
    struct buffer text = BUFFER_INIT(1024);
    assert_true(s3_canonical_request(&signing, &text));
    assert_string_equal(buffer_text(&text), "PUT\n/a%20b\nx=1\nhost:example.com\n"
                                            "my-header:a b c\nx-amz-date:20150830T123600Z\n\n"
                                            "host;my-header;x-amz-date\nHASH");
    buffer_release(&text);
}

static void keys_are_encoded_once(void **state)
{
    (void)state;
    struct buffer path = BUFFER_INIT(1024);
    assert_true(http_encode(&path, VIEW("a/b c+d~e%\xc3\xa9//."), /* keep_slash */ true));
    assert_string_equal(buffer_text(&path), "a/b%20c%2Bd~e%25%C3%A9//.");
    buffer_clear(&path);
    assert_true(http_encode(&path, VIEW("a/b"), /* keep_slash */ false));
    assert_string_equal(buffer_text(&path), "a%2Fb");
    buffer_release(&path);
}

/* Every byte either stands for itself or is three bytes that say which it was. */
static void every_byte_survives_encoding(void **state)
{
    (void)state;
    for (int byte = 0; byte < 256; byte++) {
        struct buffer text = BUFFER_INIT(16);
        char c = (char)byte;
        assert_true(http_encode(&text, (struct view){ &c, 1 }, /* keep_slash */ false));
        if (text.size == 1) {
            assert_true(text.data[0] == c);
        } else {
            assert_int_equal(text.size, 3);
            assert_true(text.data[0] == '%');
            assert_int_equal(hex_digit(text.data[1]) * 16 + hex_digit(text.data[2]), byte);
        }
        buffer_release(&text);
    }
}

static void a_query_is_sorted(void **state)
{
    (void)state;
    const struct http_pair parameters[] = { HEADER("prefix", "a b"), HEADER("delimiter", "/"),
                                            HEADER("a", "2"), HEADER("a", "1"),
                                            HEADER("uploads", "") };
    struct buffer query = BUFFER_INIT(1024);
    assert_true(http_query(&query, parameters, 5));
    assert_string_equal(buffer_text(&query), "a=1&a=2&delimiter=%2F&prefix=a%20b&uploads=");
    buffer_clear(&query);
    struct http_pair many[HTTP_QUERY_PARAMETERS_MAX + 1] = { { VIEW("a"), VIEW("") } };
    assert_false(http_query(&query, many, HTTP_QUERY_PARAMETERS_MAX + 1));
    buffer_release(&query);
}

static void dates_are_compact(void **state)
{
    (void)state;
    char text[S3_DATE_SIZE + 1];
    struct wall_time time;
    struct hf_error error;
    assert_status(HF_OK, parse_time(VIEW("2013-05-24T01:02:03.999Z"), &time, &error), &error);
    s3_date_text(time, text);
    assert_string_equal(text, "20130524T010203Z");
}

static void bodies_are_hashed(void **state)
{
    (void)state;
    char hash[S3_HASH_TEXT_SIZE], md5[HTTP_MD5_TEXT_SIZE];
    s3_payload_hash(VIEW("Welcome to Amazon S3."), hash);
    assert_string_equal(hash,
                        "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072");
    s3_payload_hash(VIEW(""), hash);
    assert_string_equal(hash, S3_EMPTY_PAYLOAD);
    assert_true(http_content_md5(VIEW(""), md5));
    assert_string_equal(md5, "1B2M2Y8AsgTpgAmY7PhCfg==");
}

static void a_secret_that_is_too_long_is_refused(void **state)
{
    (void)state;
    static const char secret[300] = { 'x' };
    struct s3_signing_key key;
    assert_false(s3_signing_key(S3_SCHEME_AWS, (struct view){ secret, sizeof secret },
                                VIEW("20130524"), VIEW("us-east-1"), VIEW("s3"), &key));
}

static void assert_sha256(struct view bytes, const char *expected)
{
    unsigned char digest[SHA256_SIZE];
    char text[2 * SHA256_SIZE + 1];
    sha256(bytes, digest);
    hex_encode(digest, sizeof digest, text);
    assert_string_equal(text, expected);
}

static void sha256_gives_the_published_answers(void **state)
{
    (void)state;
    assert_sha256(VIEW(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_sha256((struct view){ NULL, 0 },
                  "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_sha256(VIEW("abc"),
                  "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_sha256(VIEW("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
                  "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    static char million[1000000];
    memset(million, 'a', sizeof million);
    assert_sha256((struct view){ million, sizeof million },
                  "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("SHA-256 gives the published answers", sha256_gives_the_published_answers),
        IT("the published examples get their published signatures", signs_as_published),
        IT("the header names key, scope and signed headers",
           authorization_names_scope_and_headers),
        IT("the canonical request sorts headers and folds blanks",
           canonical_request_is_as_ruled),
        IT("a key is encoded once, with its slashes kept", keys_are_encoded_once),
        IT("every byte survives encoding", every_byte_survives_encoding),
        IT("a query is encoded and sorted by name and value", a_query_is_sorted),
        IT("a date is written without separators or fractions", dates_are_compact),
        IT("bodies are hashed as the service does it", bodies_are_hashed),
        IT("a secret that is too long is refused", a_secret_that_is_too_long_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
