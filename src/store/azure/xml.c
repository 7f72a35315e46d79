/* SPDX-License-Identifier: Apache-2.0 */
/* xml.c: reads the listings of Azure:
 *
 *     <EnumerationResults><Blobs>
 *       <Blob><Name>a</Name><Properties><Etag>...</Etag>...</Properties></Blob>
 *       <BlobPrefix><Name Encoded="true">b%EF%BF%BE/</Name></BlobPrefix>
 *     </Blobs><NextMarker>...</NextMarker></EnumerationResults>
 */
#include "store/azure/xml.h"

#include "base/parse.h"
#include "store/remote/encode.h"
#include "store/remote/http.h"
#include "store/remote/xml.h"

#include <stdio.h>

struct listing {
    struct remote_page *page;
    struct list_entry entry;
    bool encoded; /* the name of the entry is percent-encoded */
    bool marker_known;
    char *marker;
    size_t marker_size;
};

static void azure_listing_opened(struct xml_parse *parse)
{
    struct listing *listing = parse->argument;
    if (parse->depth == 1 && strcmp(parse->names[0], "EnumerationResults") != 0)
        xml_stop(parse, "it is not a listing");
    if (parse->depth == 3) {
        listing->entry = (struct list_entry){ .key = { NULL, 0 } };
        listing->encoded = false;
    }
    if (parse->depth == 4 && strcmp(xml_name_above(parse, 0), "Name") == 0)
        listing->encoded = view_equal(xml_attribute(parse, "Encoded"), VIEW("true"));
}

static void add_entry(struct xml_parse *parse, bool is_prefix)
{
    struct listing *listing = parse->argument;
    struct remote_page *page = listing->page;
    struct list_entry *entry = &listing->entry;
    if (!entry->key.data || (!is_prefix && entry->info.etag.size == 0))
        xml_stop(parse, "an entry lacks its name or its ETag");
    else if (page->count == page->max)
        xml_stop(parse, "it has more entries than requested");
    else if (entry->key.size == 0 || entry->key.size > KEY_BYTES_MAX)
        xml_stop(parse, "an entry has an invalid name");
    else {
        entry->is_prefix = is_prefix;
        page->entries[page->count++] = *entry;
    }
}

static void azure_take_name(struct xml_parse *parse)
{
    struct listing *listing = parse->argument;
    struct view *key = &listing->entry.key;
    *key = arena_copy(listing->page->arena, buffer_view(&parse->text));
    if (!key->data)
        xml_stop(parse, "out of memory");
    else if (listing->encoded && !http_decode(key, /* plus_is_space */ false))
        xml_stop(parse, "an entry has an unreadable name");
}

static void take_property(struct xml_parse *parse)
{
    struct listing *listing = parse->argument;
    struct object_info *info = &listing->entry.info;
    struct view text = buffer_view(&parse->text);
    const char *name = xml_name_above(parse, 0);
    struct hf_error error;
    bool good = true;
    if (strcmp(name, "Etag") == 0)
        good = etag_set(&info->etag, http_unquoted(text));
    else if (strcmp(name, "Content-Length") == 0)
        good = parse_u64(text, OBJECT_BYTES_MAX, &info->size, &error) == HF_OK;
    else if (strcmp(name, "Last-Modified") == 0)
        good = http_read_date(text, &info->modified);
    if (!good)
        xml_stop(parse, "an entry has an unreadable ETag, size or time");
}

static void take_marker(struct xml_parse *parse)
{
    struct listing *listing = parse->argument;
    struct view text = buffer_view(&parse->text);
    if (text.size >= listing->marker_size)
        xml_stop(parse, "its marker is too long");
    else
        snprintf(listing->marker, listing->marker_size, "%.*s", VIEW_ARGS(text));
    listing->marker_known = true;
}

static void azure_listing_closing(struct xml_parse *parse)
{
    bool in_blobs = parse->depth >= 3 && strcmp(parse->names[1], "Blobs") == 0;
    const char *name = xml_name_above(parse, 0);
    if (in_blobs && parse->depth == 4 && strcmp(name, "Name") == 0)
        azure_take_name(parse);
    else if (in_blobs && parse->depth == 5 &&
             strcmp(xml_name_above(parse, 1), "Properties") == 0)
        take_property(parse);
    else if (in_blobs && parse->depth == 3 && strcmp(name, "Blob") == 0)
        add_entry(parse, /* is_prefix */ false);
    else if (in_blobs && parse->depth == 3 && strcmp(name, "BlobPrefix") == 0)
        add_entry(parse, /* is_prefix */ true);
    else if (parse->depth == 2 && strcmp(name, "NextMarker") == 0)
        take_marker(parse);
}

/* Azure writes a byte order mark before the document. */
static struct view without_byte_order_mark(struct view xml)
{
    struct view mark = VIEW("\xef\xbb\xbf");
    return view_starts_with(xml, mark) ? view_from(xml, mark.size) : xml;
}

enum hf_status azure_xml_listing(struct view xml, struct remote_page *page, char *marker,
                                 size_t size, struct hf_error *error)
{
    struct listing listing = { .page = page, .marker = marker, .marker_size = size };
    struct xml_parse parse = { .opened = azure_listing_opened,
                               .closing = azure_listing_closing,
                               .argument = &listing };
    page->count = 0;
    marker[0] = '\0';
    if (xml_parse_document(&parse, without_byte_order_mark(xml), error) != HF_OK)
        return error->status;
    if (!listing.marker_known)
        return error_set(error, HF_CORRUPT,
                         "the store sent a listing that does not say whether it is complete");
    page->truncated = marker[0] != '\0';
    return error_clear(error);
}
