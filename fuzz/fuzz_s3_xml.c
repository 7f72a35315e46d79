/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_s3_xml.c: parses arbitrary bytes as listings, errors, delete results and single fields.
 * The results must be bounded, and an accepted one must be something that S3 could have sent. */
#include "base/check.h"
#include "fuzz.h"
#include "store/remote/xml.h"
#include "store/s3/xml.h"

#define ENTRIES 32

static void listing_holds(struct view xml)
{
    struct list_entry entries[ENTRIES];
    struct arena arena = ARENA_INIT;
    struct remote_page page = { .arena = &arena, .entries = entries, .max = ENTRIES };
    struct hf_error error;
    enum hf_status status = s3_xml_listing(xml, "ETag", &page, &error);
    check(status == HF_OK || (status == HF_CORRUPT && error.why[0]));
    check(page.count <= ENTRIES);
    for (size_t i = 0; status == HF_OK && i < page.count; i++) {
        check(entries[i].key.size >= 1 && entries[i].key.size <= KEY_BYTES_MAX);
        check(entries[i].is_prefix || entries[i].info.etag.size > 0);
    }
    arena_release(&arena);
}

static void error_holds(struct view xml)
{
    struct xml_error_body body;
    bool good = xml_error(xml, &body);
    check(good == (body.code[0] != '\0'));
    check(memchr(body.code, '\0', sizeof body.code));
    check(memchr(body.message, '\0', sizeof body.message));
}

static void one_failed(void *argument, struct view key, struct view code, struct view message)
{
    size_t *count = argument;
    check(key.size <= KEY_BYTES_MAX && code.size < 64 && message.size < 120);
    ++*count;
}

static void deletes_hold(struct view xml)
{
    size_t count = 0;
    struct hf_error error;
    enum hf_status status = s3_xml_deleted(xml, one_failed, &count, &error);
    check(status == HF_OK || status == HF_CORRUPT);
}

/* Any text that XML can carry is read back as it was. */
static void escaping_holds(struct view text)
{
    char key[64];
    struct xml_field field = { "k", key, sizeof key };
    struct buffer xml = BUFFER_INIT(4096);
    struct hf_error error;
    if (text.size >= sizeof key || !xml_can_carry(text))
        return;
    buffer_append(&xml, VIEW("<r><k>"));
    xml_escape(&xml, text);
    check(buffer_append(&xml, VIEW("</k></r>")));
    /* Bytes that are not UTF-8 are refused, and nothing is altered. */
    if (xml_fields(buffer_view(&xml), "r", &field, 1, &error) == HF_OK)
        check(view_equal(view_of(key), text));
    buffer_release(&xml);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct view text = { (const char *)data, size };
    listing_holds(text);
    error_holds(text);
    deletes_hold(text);
    escaping_holds(text);
    return 0;
}
