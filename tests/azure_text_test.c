/* SPDX-License-Identifier: Apache-2.0 */
/* azure_text_test.c: what the azure store writes and reads as text: strings to sign, credentials,
 * and listings. No server. */
#include "base/error.h"
#include "store/azure/credentials.h"
#include "store/azure/sign.h"
#include "store/azure/xml.h"
#include "test.h"

#include <curl/curl.h>
#include <stdio.h>

/* The key of Azure's emulator, which is public. */
#define KEY \
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

/* ---- Signing ------------------------------------------------------------------------- */

/* The example of Azure's documentation, with its headers and parameters in another order. */
static void the_documented_string_is_signed(void **state)
{
    (void)state;
    const struct http_pair parameters[] = { { VIEW("timeout"), VIEW("20") },
                                            { VIEW("restype"), VIEW("container") },
                                            { VIEW("comp"), VIEW("metadata") } };
    const struct http_pair headers[] = {
        { VIEW("x-ms-version"), VIEW("2015-02-21") },
        { VIEW("x-ms-date"), VIEW("Fri, 26 Jun 2015 23:39:12 GMT") },
    };
    const struct azure_signing signing = { .method = VIEW("GET"),
                                           .account = VIEW("myaccount"),
                                           .path = VIEW("/mycontainer"),
                                           .parameters = parameters,
                                           .parameter_count = 3,
                                           .headers = headers,
                                           .header_count = 2 };
    struct buffer string = BUFFER_INIT(4096);
    assert_true(azure_string_to_sign(&signing, &string));
    buffer_append_byte(&string, '\0');
    assert_string_equal(string.data, "GET\n\n\n\n\n\n\n\n\n\n\n\n"
                                     "x-ms-date:Fri, 26 Jun 2015 23:39:12 GMT\n"
                                     "x-ms-version:2015-02-21\n"
                                     "/myaccount/mycontainer\n"
                                     "comp:metadata\nrestype:container\ntimeout:20");
    buffer_release(&string);
    struct azure_credentials credentials;
    struct hf_error error;
    char signature[AZURE_SIGNATURE_SIZE];
    assert_int_equal(azure_credentials_from_key(VIEW(KEY), &credentials, &error), HF_OK);
    assert_int_equal(credentials.way, AZURE_SHARED_KEY);
    assert_int_equal(credentials.secret_size, 64);
    assert_true(crypto_load());
    struct view key = { credentials.secret, credentials.secret_size };
    assert_true(azure_sign(&signing, key, signature));
    assert_string_equal(signature, "1u9lui2jDxj0+fpbHjQ5m5NnastJRSYM+PSmfi8TXx4=");
}

static void headers_of_http_stand_in_their_places(void **state)
{
    (void)state;
    const struct http_pair headers[] = {
        { VIEW("range"), VIEW("bytes=0-1") },  { VIEW("content-type"), VIEW("text/plain") },
        { VIEW("if-none-match"), VIEW("*") },  { VIEW("content-md5"), VIEW("MD5") },
        { VIEW("if-match"), VIEW("\"0x1\"") }, { VIEW("x-ms-b"), VIEW("2") },
        { VIEW("x-ms-a"), VIEW("1") },         { VIEW("accept"), VIEW("unsigned") },
    };
    const struct azure_signing signing = { .method = VIEW("PUT"),
                                           .account = VIEW("a"),
                                           .path = VIEW("/a/c/k%20"),
                                           .headers = headers,
                                           .header_count = 8,
                                           .content_length = 12 };
    struct buffer string = BUFFER_INIT(4096);
    assert_true(azure_string_to_sign(&signing, &string));
    buffer_append_byte(&string, '\0');
    assert_string_equal(string.data,
                        "PUT\n\n\n12\nMD5\ntext/plain\n\n\n\"0x1\"\n*\n\nbytes=0-1\n"
                        "x-ms-a:1\nx-ms-b:2\n/a/a/c/k%20");
    buffer_release(&string);
}

/* ---- Credentials --------------------------------------------------------------------- */

static void a_sas_must_be_signed(void **state)
{
    (void)state;
    struct azure_credentials got;
    struct hf_error error;
    assert_int_equal(azure_credentials_from_sas(VIEW("?sv=1&sig=abc"), &got, &error), HF_OK);
    assert_int_equal(got.way, AZURE_SAS);
    assert_string_equal(got.secret, "sv=1&sig=abc");
    assert_int_equal(azure_credentials_from_sas(VIEW("sig=abc&sv=1"), &got, &error), HF_OK);
    static const char *const bad[] = { "", "?", "sv=1&xsig=2", "sv=1&sig=a b", "sig=a\n" };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(azure_credentials_from_sas(view_of(bad[i]), &got, &error), HF_INVALID);
    static const char *const keys[] = { "", "a", "not base64!", "YWJj\n" };
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        assert_int_equal(azure_credentials_from_key(view_of(keys[i]), &got, &error),
                         HF_INVALID);
}

static void a_token_tells_when_it_ends(void **state)
{
    (void)state;
    struct azure_credentials got;
    struct hf_error error;
    struct wall_time date = { INT64_C(1000000000) * 1000000 };
    static const struct {
        const char *json;
        int64_t ends_s; /* 0: it does not end */
    } good[] = {
        { "{\"access_token\":\"t\",\"expires_in\":\"3600\",\"expires_on\":\"5\"}", 1000003600 },
        { "{\"expires_on\":1000000600,\"access_token\":\"t\"}", 1000000600 },
        { "{\"access_token\":\"t\",\"expires_on\":\"11/18/2026 05:00:00 +00:00\"}", 0 },
        { "{\"access_token\":\"t\",\"expires_in\":9223372036854}", 1034560000 },
        { "{\"access_token\":\"t\",\"expires_on\":9223372036854}", 1034560000 },
        { "{\"access_token\":\"t\",\"expires_in\":{\"a\":1}}", 0 },
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(azure_credentials_from_json(view_of(good[i].json), date, &got, &error),
                         HF_OK);
        assert_int_equal(got.way, AZURE_TOKEN);
        assert_string_equal(got.secret, "t");
        assert_int_equal(got.life.ends, good[i].ends_s != 0);
        if (got.life.ends)
            assert_int_equal(got.life.expires.us, good[i].ends_s * 1000000);
    }
    static const char *const bad[] = { "",
                                       "[]",
                                       "{}",
                                       "{\"access_token\":\"a b\"}",
                                       "{\"access_token\":1}",
                                       "{\"access_token\":\"t\",\"expires_in\":}",
                                       "{\"access_token\":\"t\"" };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(azure_credentials_from_json(view_of(bad[i]), date, &got, &error),
                         HF_INVALID);
}

static void a_connection_string_is_read(void **state)
{
    (void)state;
    struct view text = VIEW("AccountName=me;AccountKey=" KEY ";BlobEndpoint=http://h:1/me;");
    assert_true(view_equal(azure_connection_value(text, "AccountName"), VIEW("me")));
    assert_true(view_equal(azure_connection_value(text, "AccountKey"), VIEW(KEY)));
    assert_true(
        view_equal(azure_connection_value(text, "BlobEndpoint"), VIEW("http://h:1/me")));
    assert_null(azure_connection_value(text, "Key").data);
    assert_null(azure_connection_value(VIEW(""), "AccountName").data);
}

/* ---- Listings ------------------------------------------------------------------------ */

#define BLOB(name)                                                                           \
    "<Blob><Name>" name "</Name><Properties><Last-Modified>Wed, 18 Nov 2026 05:00:00 "       \
    "GMT</Last-Modified><Etag>0x8D1</Etag><Content-Length>7</Content-Length></Properties></" \
    "Blob>"
#define PAGE(entries, marker)                                                      \
    "<?xml version=\"1.0\"?><EnumerationResults><Blobs>" entries "</Blobs>" marker \
    "</EnumerationResults>"

struct fixture {
    struct arena arena;
    struct list_entry entries[4];
    struct remote_page page;
    char marker[64];
    struct hf_error error;
};

static enum hf_status read_page(struct fixture *fixture, struct view xml)
{
    *fixture = (struct fixture){ .arena = ARENA_INIT };
    fixture->page =
        (struct remote_page){ .arena = &fixture->arena, .entries = fixture->entries, .max = 4 };
    return azure_xml_listing(xml, &fixture->page, fixture->marker, sizeof fixture->marker,
                             &fixture->error);
}

static void a_page_is_read(void **state)
{
    (void)state;
    struct fixture f;
    assert_int_equal(read_page(&f,
                               VIEW("\xef\xbb\xbf" PAGE(
                                   BLOB("a") "<BlobPrefix><Name Encoded=\"true\">b%EF%BF%BE+/"
                                             "</Name></BlobPrefix>" BLOB("c%41"),
                                   "<NextMarker>2!80!x</NextMarker>"))),
                     HF_OK);
    assert_int_equal(f.page.count, 3);
    assert_true(f.page.truncated);
    assert_string_equal(f.marker, "2!80!x");
    assert_true(view_equal(f.entries[0].key, VIEW("a")));
    assert_true(view_equal(etag_view(&f.entries[0].info.etag), VIEW("0x8D1")));
    assert_int_equal(f.entries[0].info.size, 7);
    assert_int_equal(f.entries[0].info.modified.us, INT64_C(1794978000) * 1000000);
    assert_true(f.entries[1].is_prefix);
    assert_true(view_equal(f.entries[1].key, VIEW("b\xef\xbf\xbe+/")));
    assert_true(view_equal(f.entries[2].key, VIEW("c%41")));
    arena_release(&f.arena);
    assert_int_equal(read_page(&f, VIEW(PAGE("", "<NextMarker/>"))), HF_OK);
    assert_int_equal(f.page.count, 0);
    assert_false(f.page.truncated);
    arena_release(&f.arena);
}

static void odd_pages_are_corrupt(void **state)
{
    (void)state;
    static const char *const pages[] = {
        "",
        "<EnumerationResults>",
        "<Other/>",
        PAGE(BLOB("a"), ""),
        PAGE("<Blob><Name>a</Name></Blob>", "<NextMarker/>"),
        PAGE("<BlobPrefix></BlobPrefix>", "<NextMarker/>"),
        PAGE("<BlobPrefix><Name></Name></BlobPrefix>", "<NextMarker/>"),
        PAGE("<BlobPrefix><Name Encoded=\"true\">%4</Name></BlobPrefix>", "<NextMarker/>"),
        PAGE(BLOB("a") BLOB("b") BLOB("c") BLOB("d") BLOB("e"), "<NextMarker/>"),
        PAGE("", "<NextMarker>0123456789012345678901234567890123456789012345678901234567890123"
                 "</NextMarker>"),
    };
    struct fixture f;
    for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++) {
        assert_int_equal(read_page(&f, view_of(pages[i])), HF_CORRUPT);
        arena_release(&f.arena);
    }
}

static int load_date_parser(void **state)
{
    (void)state;
    return curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK;
}

static int unload_date_parser(void **state)
{
    (void)state;
    curl_global_cleanup();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("the string of Azure's documentation is signed", the_documented_string_is_signed),
        IT("headers of HTTP stand in their places, and others are not signed",
           headers_of_http_stand_in_their_places),
        IT("a SAS must be signed, and a key must be base64", a_sas_must_be_signed),
        IT("a token tells when it ends", a_token_tells_when_it_ends),
        IT("a connection string is read", a_connection_string_is_read),
        IT("a page is read, with its marker and its encoded names", a_page_is_read),
        IT("a page that lacks what it must have is corrupt", odd_pages_are_corrupt),
    };
    return cmocka_run_group_tests(tests, load_date_parser, unload_date_parser);
}
