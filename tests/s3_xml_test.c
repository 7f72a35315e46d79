/* SPDX-License-Identifier: Apache-2.0 */
/* s3_xml_test.c: replies of S3: complete, unusual, hostile, and cut at every byte. */
#include "alloc.h"
#include "base/parse.h"
#include "store/remote/xml.h"
#include "store/s3/xml.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>

static const char listing[] =
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
    "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Name>b</Name>"
    "<Prefix>a%2F</Prefix><MaxKeys>1000</MaxKeys><IsTruncated>true</IsTruncated>"
    "<Contents><Key>a%2Fone+two%2Bthree%01</Key>"
    "<LastModified>2026-02-06T10:00:00.250Z</LastModified>"
    "<ETag>&quot;d41d8cd98f00b204e9800998ecf8427e&quot;</ETag><Size>42</Size>"
    "<StorageClass>STANDARD</StorageClass><Owner><ID>x</ID></Owner></Contents>"
    "<CommonPrefixes><Prefix>a%2Fgroup%2F</Prefix></CommonPrefixes>"
    "<EncodingType>url</EncodingType></ListBucketResult>";

struct fixture {
    struct arena arena;
    struct list_entry entries[8];
    struct remote_page page;
    struct hf_error error;
};

static enum hf_status read_page(struct fixture *fixture, struct view xml)
{
    *fixture = (struct fixture){ .arena = ARENA_INIT };
    fixture->page =
        (struct remote_page){ .arena = &fixture->arena, .entries = fixture->entries, .max = 8 };
    return s3_xml_listing(xml, "ETag", &fixture->page, &fixture->error);
}

static void a_page_is_read(void **state)
{
    (void)state;
    struct fixture f;
    assert_status(HF_OK, read_page(&f, view_of(listing)), &f.error);
    assert_int_equal(f.page.count, 2);
    assert_true(f.page.truncated);
    const struct list_entry *object = &f.entries[0];
    assert_true(view_equal(object->key, VIEW("a/one two+three\x01")));
    assert_false(object->is_prefix);
    assert_int_equal(object->info.size, 42);
    assert_true(
        view_equal(etag_view(&object->info.etag), VIEW("d41d8cd98f00b204e9800998ecf8427e")));
    char text[TIME_TEXT_MAX];
    assert_string_equal(time_text(object->info.modified, text), "2026-02-06T10:00:00.250Z");
    assert_true(f.entries[1].is_prefix);
    assert_true(view_equal(f.entries[1].key, VIEW("a/group/")));
    arena_release(&f.arena);
}

static void names_are_decoded_only_when_encoded(void **state)
{
    (void)state;
    struct fixture f;
    assert_status(HF_OK,
                  read_page(&f, VIEW("<ListBucketResult><IsTruncated>false</IsTruncated>"
                                     "<Contents><Key>a+%41&amp;&#x41;</Key><ETag>x</ETag>"
                                     "</Contents></ListBucketResult>")),
                  &f.error);
    assert_true(view_equal(f.entries[0].key, VIEW("a+%41&A")));
    assert_false(f.page.truncated);
    arena_release(&f.arena);
}

/* As Ceph repeats them: the keys are encoded, the rest is not. */
#define REPEATED "<StartAfter>a&#x1;&#2;\x03\xef\xbf\xbf</StartAfter>"
#define ONE_KEY  "<Contents><Key>a%01</Key><ETag>x</ETag></Contents>"

static void what_xml_cannot_carry_is_passed_over(void **state)
{
    (void)state;
    struct fixture f;
    assert_status(
        HF_OK,
        read_page(&f, VIEW("<ListBucketResult>" REPEATED "<IsTruncated>false</IsTruncated>"
                           "<EncodingType>url</EncodingType>" ONE_KEY "</ListBucketResult>")),
        &f.error);
    assert_int_equal(f.page.count, 1);
    assert_true(view_equal(f.entries[0].key, VIEW("a\x01")));
    arena_release(&f.arena);
    /* Where keys are not encoded, one of them might have lost its bytes. */
    assert_int_equal(read_page(&f, VIEW("<ListBucketResult>" REPEATED
                                        "<IsTruncated>false</IsTruncated>" ONE_KEY
                                        "</ListBucketResult>")),
                     HF_CORRUPT);
    arena_release(&f.arena);
}

/* A reply that was cut anywhere is never taken for a listing. */
static void a_cut_page_is_corrupt(void **state)
{
    (void)state;
    for (size_t size = 0; size < sizeof listing - 1; size++) {
        struct fixture f;
        assert_int_equal(read_page(&f, (struct view){ listing, size }), HF_CORRUPT);
        assert_true(f.error.why[0] != '\0');
        arena_release(&f.arena);
    }
}

static void odd_pages_are_corrupt(void **state)
{
    (void)state;
    static const char *const odd[] = {
        "<Error><Code>x</Code></Error>",
        "<html><body>welcome</body></html>",
        "<ListBucketResult></ListBucketResult>",
        "<ListBucketResult><IsTruncated>false</IsTruncated><Contents><ETag>x</ETag></Contents>"
        "</ListBucketResult>",
        "<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>a</Key></Contents>"
        "</ListBucketResult>",
        "<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key></Key><ETag>x</ETag>"
        "</Contents></ListBucketResult>",
        "<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>a</Key><ETag>x</ETag>"
        "<Size>-1</Size></Contents></ListBucketResult>",
        "<ListBucketResult><IsTruncated>false</IsTruncated><EncodingType>url</EncodingType>"
        "<Contents><Key>a%4</Key><ETag>x</ETag></Contents></ListBucketResult>",
        "<!DOCTYPE x [<!ENTITY a \"b\">]><ListBucketResult><IsTruncated>false</IsTruncated>"
        "</ListBucketResult>",
    };
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        struct fixture f;
        assert_int_equal(read_page(&f, view_of(odd[i])), HF_CORRUPT);
        arena_release(&f.arena);
    }
}

static void more_than_asked_is_corrupt(void **state)
{
    (void)state;
    struct buffer xml = BUFFER_INIT(64 * KIB);
    buffer_print(&xml, "<ListBucketResult><IsTruncated>false</IsTruncated>");
    for (int i = 0; i < 9; i++)
        buffer_print(&xml, "<Contents><Key>%d</Key><ETag>x</ETag></Contents>", i);
    buffer_print(&xml, "</ListBucketResult>");
    struct fixture f;
    assert_int_equal(read_page(&f, buffer_view(&xml)), HF_CORRUPT);
    arena_release(&f.arena);
    buffer_release(&xml);
}

static void depth_and_length_are_bounded(void **state)
{
    (void)state;
    struct buffer xml = BUFFER_INIT(MIB);
    for (int i = 0; i < 40; i++)
        buffer_print(&xml, "<ListBucketResult>");
    struct fixture f;
    assert_int_equal(read_page(&f, buffer_view(&xml)), HF_CORRUPT);
    assert_non_null(strstr(f.error.why, "deeply"));
    arena_release(&f.arena);
    buffer_clear(&xml);
    buffer_print(&xml, "<ListBucketResult><Contents><Key>");
    for (int i = 0; i < 20000; i++)
        buffer_append_byte(&xml, 'k');
    assert_int_equal(read_page(&f, buffer_view(&xml)), HF_CORRUPT);
    assert_non_null(strstr(f.error.why, "too long"));
    arena_release(&f.arena);
    buffer_release(&xml);
}

static void an_error_is_read(void **state)
{
    (void)state;
    struct xml_error_body body;
    assert_true(xml_error(
        VIEW("<?xml version=\"1.0\"?><Error><Code>AuthorizationHeaderMalformed</Code>"
             "<Message>the region is wrong</Message><Region>eu-west-1</Region></Error>"),
        &body));
    assert_string_equal(body.code, "AuthorizationHeaderMalformed");
    assert_string_equal(body.region, "eu-west-1");
    assert_true(xml_error(VIEW("<ErrorResponse><Error><Code>ExpiredToken</Code></Error>"
                               "</ErrorResponse>"),
                          &body));
    assert_string_equal(body.code, "ExpiredToken");
}

static void what_is_no_error_is_none(void **state)
{
    (void)state;
    static const char *const none[] = { "", "<html/>", "oops", "<Error></Error>",
                                        "<Error><Code>half" };
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        struct xml_error_body body;
        assert_false(xml_error(view_of(none[i]), &body));
        assert_string_equal(body.code, "");
    }
}

struct failures {
    size_t count;
    char last[64];
    char code[64];
};

static void note_failure(void *argument, struct view key, struct view code, struct view message)
{
    struct failures *failures = argument;
    (void)message;
    failures->count++;
    snprintf(failures->last, sizeof failures->last, "%.*s", VIEW_ARGS(key));
    snprintf(failures->code, sizeof failures->code, "%.*s", VIEW_ARGS(code));
}

static void failed_deletes_are_told(void **state)
{
    (void)state;
    struct failures failures = { 0 };
    struct hf_error error;
    assert_status(HF_OK,
                  s3_xml_deleted(VIEW("<DeleteResult><Deleted><Key>a</Key></Deleted><Error>"
                                      "<Key>b&amp;c</Key><Code>AccessDenied</Code><Message>no"
                                      "</Message></Error></DeleteResult>"),
                                 note_failure, &failures, &error),
                  &error);
    assert_int_equal(failures.count, 1);
    assert_string_equal(failures.last, "b&c");
    assert_string_equal(failures.code, "AccessDenied");
    assert_int_equal(s3_xml_deleted(VIEW("<DeleteResult><Error>"), note_failure, &failures,
                                    &error),
                     HF_CORRUPT);
}

static void fields_are_found(void **state)
{
    (void)state;
    char id[16], missing[16];
    const struct xml_field fields[] = { { "UploadId", id, sizeof id },
                                        { "ETag", missing, sizeof missing } };
    struct hf_error error;
    assert_status(HF_OK,
                  xml_fields(VIEW("  \n<InitiateMultipartUploadResult><UploadId>abc</UploadId>"
                                  "</InitiateMultipartUploadResult>"),
                             "InitiateMultipartUploadResult", fields, 2, &error),
                  &error);
    assert_string_equal(id, "abc");
    assert_string_equal(missing, "");
}

static void what_is_escaped_is_read_back(void **state)
{
    (void)state;
    const struct view key = VIEW("<a & 'b' \"c\">\t\n\r\xc3\xa9");
    struct buffer xml = BUFFER_INIT(1024);
    struct failures failures = { 0 };
    struct hf_error error;
    assert_true(xml_can_carry(key));
    buffer_append(&xml, VIEW("<DeleteResult><Error><Key>"));
    assert_true(xml_escape(&xml, key));
    buffer_append(&xml, VIEW("</Key></Error></DeleteResult>"));
    assert_status(HF_OK, s3_xml_deleted(buffer_view(&xml), note_failure, &failures, &error),
                  &error);
    assert_true(view_equal(view_of(failures.last), key));
    assert_false(xml_can_carry(VIEW("a\x01")));
    assert_false(xml_can_carry(VIEW("\xef\xbf\xbf")));
    buffer_release(&xml);
}

static void without_memory_a_page_fails_cleanly(void **state)
{
    (void)state;
    for (long n = 0;; n++) {
        struct fixture f;
        alloc_fail_after(n);
        enum hf_status status = read_page(&f, view_of(listing));
        arena_release(&f.arena);
        if (!alloc_stop())
            break;
        assert_int_not_equal(status, HF_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("a page is read, with its names decoded", a_page_is_read),
        IT("names are decoded only when the page says that they are encoded",
           names_are_decoded_only_when_encoded),
        IT("characters that XML has not are passed over where keys are encoded",
           what_xml_cannot_carry_is_passed_over),
        IT("a page cut at any byte is corrupt", a_cut_page_is_corrupt),
        IT("a page that lacks what it must have is corrupt", odd_pages_are_corrupt),
        IT("a page with more entries than asked for is corrupt", more_than_asked_is_corrupt),
        IT("depth and length of texts are bounded", depth_and_length_are_bounded),
        IT("an error tells its code, message and region", an_error_is_read),
        IT("what is not an S3 error is none", what_is_no_error_is_none),
        IT("the keys that a multi-object delete left are told", failed_deletes_are_told),
        IT("single fields are found, also behind leading blanks", fields_are_found),
        IT("what is escaped is read back as it was", what_is_escaped_is_read_back),
        IT("without memory a page fails and leaks nothing",
           without_memory_a_page_fails_cleanly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
