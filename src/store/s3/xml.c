/* SPDX-License-Identifier: Apache-2.0 */
/* xml.c: reads the listings of S3, and its replies to a delete of many objects. */
#include "store/s3/xml.h"

#include "base/parse.h"
#include "store/remote/encode.h"
#include "store/remote/http.h"
#include "store/remote/xml.h"

#include <stdio.h>

/* ---- Listings ------------------------------------------------------------------------ */

struct listing {
    struct remote_page *page;
    const char *version; /* the name of the element with an object's version */
    bool encoded;        /* names are percent-encoded; the element may follow them */
    bool truncation_known;
    struct list_entry entry;
};

static void listing_opened(struct xml_parse *parse)
{
    struct listing *listing = parse->argument;
    if (parse->depth == 1 && strcmp(parse->names[0], "ListBucketResult") != 0)
        xml_stop(parse, "it is not a listing");
    if (parse->depth == 2)
        listing->entry = (struct list_entry){ .key = { NULL, 0 } };
}

static void listing_add_entry(struct xml_parse *parse, bool is_prefix)
{
    struct listing *listing = parse->argument;
    struct remote_page *page = listing->page;
    if (!listing->entry.key.data || (!is_prefix && listing->entry.info.etag.size == 0))
        xml_stop(parse, "an entry lacks its key or its version");
    else if (page->count == page->max)
        xml_stop(parse, "it has more entries than requested");
    else {
        page->entries[page->count] = listing->entry;
        page->entries[page->count++].is_prefix = is_prefix;
    }
}

static void listing_key(struct xml_parse *parse)
{
    struct listing *listing = parse->argument;
    listing->entry.key = arena_copy(listing->page->arena, buffer_view(&parse->text));
    if (!listing->entry.key.data)
        xml_stop(parse, "out of memory");
}

static void listing_object_field(struct xml_parse *parse)
{
    struct listing *listing = parse->argument;
    struct object_info *info = &listing->entry.info;
    struct view text = buffer_view(&parse->text);
    const char *name = xml_name_above(parse, 0);
    struct hf_error error;
    bool good = true;
    if (strcmp(name, "Key") == 0)
        listing_key(parse);
    else if (strcmp(name, listing->version) == 0)
        good = etag_set(&info->etag, http_unquoted(text));
    else if (strcmp(name, "Size") == 0)
        good = parse_u64(text, OBJECT_BYTES_MAX, &info->size, &error) == HF_OK;
    else if (strcmp(name, "LastModified") == 0)
        good = parse_time(text, &info->modified, &error) == HF_OK;
    if (!good)
        xml_stop(parse, "an entry has an unreadable version, size or time");
}

static void listing_marker(struct xml_parse *parse)
{
    struct listing *listing = parse->argument;
    struct remote_page *page = listing->page;
    struct view text = buffer_view(&parse->text);
    if (page->marker && text.size >= page->marker_size)
        xml_stop(parse, "its marker is too long");
    else if (page->marker)
        snprintf(page->marker, page->marker_size, "%.*s", VIEW_ARGS(text));
}

static void listing_closing(struct xml_parse *parse)
{
    struct listing *listing = parse->argument;
    const char *name = xml_name_above(parse, 0);
    if (parse->depth == 3 && strcmp(xml_name_above(parse, 1), "Contents") == 0)
        listing_object_field(parse);
    else if (parse->depth == 3 && xml_is_in(parse, "CommonPrefixes", "Prefix"))
        listing_key(parse);
    else if (parse->depth == 2 && strcmp(name, "Contents") == 0)
        listing_add_entry(parse, /* is_prefix */ false);
    else if (parse->depth == 2 && strcmp(name, "CommonPrefixes") == 0)
        listing_add_entry(parse, /* is_prefix */ true);
    else if (parse->depth == 2 && strcmp(name, "EncodingType") == 0)
        listing->encoded = view_equal(buffer_view(&parse->text), VIEW("url"));
    else if (parse->depth == 2 && strcmp(name, "NextContinuationToken") == 0)
        listing_marker(parse);
    else if (parse->depth == 2 && strcmp(name, "IsTruncated") == 0) {
        listing->page->truncated = view_equal(buffer_view(&parse->text), VIEW("true"));
        listing->truncation_known = true;
    }
}

/* The number of bytes at the start of the text that form a character that XML 1.0 forbids,
 * literally or as "&#1;"; 0 if there is none. */
static size_t forbidden_size(struct view text)
{
    if (!xml_can_carry(view_first(text, 1)))
        return 1;
    if (text.data[0] == '\xef' && text.size >= 3 && !xml_can_carry(view_first(text, 3)))
        return 3;
    size_t end = view_find(view_first(text, 10), ';');
    if (!view_starts_with(text, VIEW("&#")) || end == 10 || end >= text.size)
        return 0;
    struct view digits = view_first(view_from(text, 2), end - 2);
    bool hex = view_starts_with(digits, VIEW("x"));
    unsigned value = 0;
    for (size_t i = hex; i < digits.size; i++) {
        int digit = hex_digit(digits.data[i]);
        if (digit < 0 || digit >= (hex ? 16 : 10))
            return 0;
        value = value * (hex ? 16 : 10) + (unsigned)digit;
    }
    bool control = value < 0x20 && value != '\t' && value != '\n' && value != '\r';
    return control || value == 0xfffe || value == 0xffff ? end + 1 : 0;
}

static enum hf_status listing_parse(struct view xml, struct listing *listing,
                                    struct hf_error *error)
{
    struct xml_parse parse = { .opened = listing_opened,
                               .closing = listing_closing,
                               .argument = listing };
    *listing = (struct listing){ .page = listing->page, .version = listing->version };
    listing->page->count = 0;
    listing->page->truncated = false;
    if (listing->page->marker)
        listing->page->marker[0] = '\0';
    return xml_parse_document(&parse, xml, error);
}

/* Ceph encodes the keys, but not the prefix, start and token that it repeats. If these contain a
 * control character, the document is not valid XML. We need none of them, so the document is parsed
 * again with such characters replaced. This is safe only if the keys are encoded. */
static enum hf_status listing_repaired(struct view xml, struct listing *listing,
                                       struct hf_error *error)
{
    struct hf_error second;
    struct buffer copy = BUFFER_INIT(BODY_BYTES_MAX);
    bool found = false;
    while (xml.size > 0) {
        size_t size = forbidden_size(xml);
        found = found || size > 0;
        buffer_append_byte(&copy, size > 0 ? '?' : xml.data[0]);
        xml = view_from(xml, size > 0 ? size : 1);
    }
    if (found && !copy.failed && listing_parse(buffer_view(&copy), listing, &second) == HF_OK &&
        listing->encoded)
        error_clear(error);
    buffer_release(&copy);
    return error->status;
}

enum hf_status s3_xml_listing(struct view xml, const char *version, struct remote_page *page,
                              struct hf_error *error)
{
    struct listing listing = { .page = page, .version = version };
    if (listing_parse(xml, &listing, error) != HF_OK &&
        listing_repaired(xml, &listing, error) != HF_OK)
        return error->status;
    if (!listing.truncation_known)
        return error_set(error, HF_CORRUPT,
                         "the store sent a listing that does not say whether it is complete");
    for (size_t i = 0; i < page->count; i++) {
        struct view *key = &page->entries[i].key;
        if ((listing.encoded && !http_decode(key, /* plus_is_space */ true)) ||
            key->size == 0 || key->size > KEY_BYTES_MAX)
            return error_set(error, HF_CORRUPT, "the store listed an invalid key");
    }
    return error_clear(error);
}

/* ---- Multi-object delete ------------------------------------------------------------- */

struct deletion {
    s3_delete_failed *failed;
    void *argument;
    char key[KEY_BYTES_MAX + 1];
    size_t key_size;
    char code[64];
    char message[120];
};

static void deletion_opened(struct xml_parse *parse)
{
    struct deletion *deletion = parse->argument;
    if (parse->depth == 1 && strcmp(parse->names[0], "DeleteResult") != 0)
        xml_stop(parse, "it is not the reply to a delete");
    if (parse->depth == 2)
        deletion->key_size = 0;
}

static void deletion_closing(struct xml_parse *parse)
{
    struct deletion *deletion = parse->argument;
    struct view text = buffer_view(&parse->text);
    if (parse->depth == 3 && xml_is_in(parse, "Error", "Key")) {
        if (text.size > KEY_BYTES_MAX) {
            xml_stop(parse, "it contains a key that is too long");
            return;
        }
        memcpy(deletion->key, text.data, text.size);
        deletion->key_size = text.size;
    } else if (parse->depth == 3 && xml_is_in(parse, "Error", "Code")) {
        snprintf(deletion->code, sizeof deletion->code, "%.*s", VIEW_ARGS(text));
    } else if (parse->depth == 3 && xml_is_in(parse, "Error", "Message")) {
        snprintf(deletion->message, sizeof deletion->message, "%.*s", VIEW_ARGS(text));
    } else if (parse->depth == 2 && strcmp(xml_name_above(parse, 0), "Error") == 0) {
        deletion->failed(deletion->argument, (struct view){ deletion->key, deletion->key_size },
                         view_of(deletion->code), view_of(deletion->message));
        deletion->code[0] = deletion->message[0] = '\0';
    }
}

enum hf_status s3_xml_deleted(struct view xml, s3_delete_failed *failed, void *argument,
                              struct hf_error *error)
{
    struct deletion deletion = { .failed = failed, .argument = argument };
    struct xml_parse parse = { .opened = deletion_opened,
                               .closing = deletion_closing,
                               .argument = &deletion };
    return xml_parse_document(&parse, xml, error);
}
