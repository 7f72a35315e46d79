/* SPDX-License-Identifier: Apache-2.0 */
/* xml.c: reads the XML replies of S3 with bounds on depth, size and count, and refuses a
 * DOCTYPE, so a broken or hostile server cannot exhaust memory. */
#include "store/s3/xml.h"

#include "base/check.h"
#include "base/parse.h"
#include "store/remote/http.h"

#include <expat.h>
#include <stdio.h>

#define DEPTH_MAX    16
#define NAME_MAX_    48
#define TEXT_MAX     (16 * KIB) /* a key of 1,024 bytes is 3,072 encoded */
#define ELEMENTS_MAX 100000

/* The state of parsing one document: the path of open elements, and the text of the innermost
 * one. */
struct parse {
    XML_Parser parser;
    char names[DEPTH_MAX][NAME_MAX_];
    size_t depth;
    size_t elements;
    struct buffer text;
    const char *why; /* set: parsing has stopped */
    void (*opened)(struct parse *parse);
    void (*closing)(struct parse *parse); /* for the innermost open element, with its text */
    void *argument;
};

static void stop_parsing(struct parse *parse, const char *why)
{
    if (!parse->why)
        parse->why = why;
    XML_StopParser(parse->parser, XML_FALSE);
}

/* The name of the element `above` levels above the innermost one; empty above the root. */
static const char *name_above(const struct parse *parse, size_t above)
{
    return parse->depth > above ? parse->names[parse->depth - 1 - above] : "";
}

static bool stands_in(const struct parse *parse, const char *parent, const char *name)
{
    return strcmp(name_above(parse, 0), name) == 0 && strcmp(name_above(parse, 1), parent) == 0;
}

static void on_start(void *argument, const char *name, const char **attributes)
{
    struct parse *parse = argument;
    (void)attributes;
    if (parse->why)
        return;
    if (parse->depth == DEPTH_MAX || ++parse->elements > ELEMENTS_MAX) {
        stop_parsing(parse, "it is nested too deeply or has too many elements");
        return;
    }
    size_t size = strnlen(name, NAME_MAX_ - 1); /* longer names are unknown */
    memcpy(parse->names[parse->depth], name, size);
    parse->names[parse->depth++][size] = '\0';
    buffer_clear(&parse->text);
    if (parse->opened)
        parse->opened(parse);
}

static void on_end(void *argument, const char *name)
{
    struct parse *parse = argument;
    (void)name;
    if (parse->why)
        return;
    check(parse->depth > 0);
    parse->closing(parse);
    parse->depth--;
    buffer_clear(&parse->text);
}

static void on_text(void *argument, const char *text, int size)
{
    struct parse *parse = argument;
    if (!parse->why && !buffer_append(&parse->text, (struct view){ text, (size_t)size }))
        stop_parsing(parse, "it contains a string that is too long");
}

static void on_doctype(void *argument, const char *name, const char *system_id,
                       const char *public_id, int internal)
{
    (void)name;
    (void)system_id;
    (void)public_id;
    (void)internal;
    stop_parsing(argument, "it has a DOCTYPE");
}

static enum hf_status parse_document(struct parse *parse, struct view xml,
                                     struct hf_error *error)
{
    parse->parser = XML_ParserCreate(NULL);
    if (!parse->parser)
        return error_no_memory(error);
    parse->text = BUFFER_INIT(TEXT_MAX);
    XML_SetUserData(parse->parser, parse);
    XML_SetElementHandler(parse->parser, on_start, on_end);
    XML_SetCharacterDataHandler(parse->parser, on_text);
    XML_SetStartDoctypeDeclHandler(parse->parser, on_doctype);
    /* During a long request some stores send whitespace to keep the connection alive. */
    while (xml.size > 0 && strchr(" \r\n\t", xml.data[0]))
        xml = view_from(xml, 1);
    enum XML_Status result = xml.size > BODY_BYTES_MAX
                                 ? XML_STATUS_ERROR
                                 : XML_Parse(parse->parser, xml.data, (int)xml.size, 1);
    const char *why = parse->why;
    if (!why && result != XML_STATUS_OK)
        why = XML_ErrorString(XML_GetErrorCode(parse->parser));
    buffer_release(&parse->text);
    XML_ParserFree(parse->parser);
    if (why)
        return error_set(error, HF_CORRUPT, "the store sent unusable XML: %s", why);
    return error_clear(error);
}

bool s3_xml_load(void)
{
    XML_Parser parser = XML_ParserCreate(NULL);
    if (parser)
        XML_ParserFree(parser);
    return parser != NULL;
}

/* ---- Single fields ------------------------------------------------------------------- */

struct field_search {
    const char *root;
    const struct s3_xml_field *fields;
    size_t count;
};

static void check_root(struct parse *parse)
{
    const struct field_search *search = parse->argument;
    if (parse->depth == 1 && strcmp(parse->names[0], search->root) != 0)
        stop_parsing(parse, "it is not the reply that was expected");
}

static void keep_field(struct parse *parse)
{
    const struct field_search *search = parse->argument;
    for (size_t i = 0; i < search->count; i++) {
        const struct s3_xml_field *field = &search->fields[i];
        if (field->text[0] == '\0' && strcmp(name_above(parse, 0), field->name) == 0)
            snprintf(field->text, field->size, "%.*s", VIEW_ARGS(buffer_view(&parse->text)));
    }
}

enum hf_status s3_xml_fields(struct view xml, const char *root,
                             const struct s3_xml_field *fields, size_t count,
                             struct hf_error *error)
{
    struct field_search search = { root, fields, count };
    struct parse parse = { .opened = check_root, .closing = keep_field, .argument = &search };
    for (size_t i = 0; i < count; i++)
        fields[i].text[0] = '\0';
    return parse_document(&parse, xml, error);
}

struct text_search {
    struct field_search root; /* must be first: check_root reads it */
    const char *name;
    const char *text;
    bool found;
};

static void match_text(struct parse *parse)
{
    struct text_search *search = parse->argument;
    if (strcmp(name_above(parse, 0), search->name) == 0 &&
        view_equal(buffer_view(&parse->text), view_of(search->text)))
        search->found = true;
}

enum hf_status s3_xml_says(struct view xml, const char *root, const char *name,
                           const char *text, bool *ret_says, struct hf_error *error)
{
    struct text_search search = { { root, NULL, 0 }, name, text, false };
    struct parse parse = { .opened = check_root, .closing = match_text, .argument = &search };
    parse_document(&parse, xml, error);
    *ret_says = search.found;
    return error->status;
}

bool s3_xml_error(struct view xml, struct s3_error_body *ret_body)
{
    struct s3_error_body *body = ret_body;
    const struct s3_xml_field fields[] = {
        { "Code", body->code, sizeof body->code },
        { "Message", body->message, sizeof body->message },
        { "Region", body->region, sizeof body->region },
        { "Endpoint", body->endpoint, sizeof body->endpoint },
        { "ServerTime", body->server_time, sizeof body->server_time },
    };
    *body = (struct s3_error_body){ 0 };
    if (xml.size == 0)
        return false;
    struct hf_error error;
    bool good = s3_xml_fields(xml, "Error", fields, 5, &error) == HF_OK ||
                s3_xml_fields(xml, "ErrorResponse", fields, 5, &error) == HF_OK;
    if (!good || body->code[0] == '\0')
        *body = (struct s3_error_body){ 0 };
    return body->code[0] != '\0';
}

/* ---- Listings ------------------------------------------------------------------------ */

struct listing {
    struct s3_page *page;
    bool encoded; /* names are percent-encoded; the element may follow them */
    bool truncation_known;
    struct list_entry entry;
};

static void listing_opened(struct parse *parse)
{
    struct listing *listing = parse->argument;
    if (parse->depth == 1 && strcmp(parse->names[0], "ListBucketResult") != 0)
        stop_parsing(parse, "it is not a listing");
    if (parse->depth == 2)
        listing->entry = (struct list_entry){ .key = { NULL, 0 } };
}

static void listing_add_entry(struct parse *parse, bool is_prefix)
{
    struct listing *listing = parse->argument;
    struct s3_page *page = listing->page;
    if (!listing->entry.key.data || (!is_prefix && listing->entry.info.etag.size == 0))
        stop_parsing(parse, "an entry lacks its key or its ETag");
    else if (page->count == page->max)
        stop_parsing(parse, "it has more entries than requested");
    else {
        page->entries[page->count] = listing->entry;
        page->entries[page->count++].is_prefix = is_prefix;
    }
}

static void listing_key(struct parse *parse)
{
    struct listing *listing = parse->argument;
    listing->entry.key = arena_copy(listing->page->arena, buffer_view(&parse->text));
    if (!listing->entry.key.data)
        stop_parsing(parse, "out of memory");
}

static void listing_object_field(struct parse *parse)
{
    struct listing *listing = parse->argument;
    struct object_info *info = &listing->entry.info;
    struct view text = buffer_view(&parse->text);
    const char *name = name_above(parse, 0);
    struct hf_error error;
    bool good = true;
    if (strcmp(name, "Key") == 0)
        listing_key(parse);
    else if (strcmp(name, "ETag") == 0)
        good = etag_set(&info->etag, http_unquoted(text));
    else if (strcmp(name, "Size") == 0)
        good = parse_u64(text, OBJECT_BYTES_MAX, &info->size, &error) == HF_OK;
    else if (strcmp(name, "LastModified") == 0)
        good = parse_time(text, &info->modified, &error) == HF_OK;
    if (!good)
        stop_parsing(parse, "an entry has an unreadable ETag, size or time");
}

static void listing_closing(struct parse *parse)
{
    struct listing *listing = parse->argument;
    const char *name = name_above(parse, 0);
    if (parse->depth == 3 && strcmp(name_above(parse, 1), "Contents") == 0)
        listing_object_field(parse);
    else if (parse->depth == 3 && stands_in(parse, "CommonPrefixes", "Prefix"))
        listing_key(parse);
    else if (parse->depth == 2 && strcmp(name, "Contents") == 0)
        listing_add_entry(parse, /* is_prefix */ false);
    else if (parse->depth == 2 && strcmp(name, "CommonPrefixes") == 0)
        listing_add_entry(parse, /* is_prefix */ true);
    else if (parse->depth == 2 && strcmp(name, "EncodingType") == 0)
        listing->encoded = view_equal(buffer_view(&parse->text), VIEW("url"));
    else if (parse->depth == 2 && strcmp(name, "IsTruncated") == 0) {
        listing->page->truncated = view_equal(buffer_view(&parse->text), VIEW("true"));
        listing->truncation_known = true;
    }
}

/* Undoes form encoding ("+" is a space) in place. */
static bool decode_key(struct view *key)
{
    char *to = (char *)(size_t)key->data;
    size_t size = 0;
    for (size_t i = 0; i < key->size; i++, size++) {
        char c = key->data[i];
        if (c == '%') {
            int high = i + 2 < key->size ? hex_digit(key->data[i + 1]) : -1;
            int low = i + 2 < key->size ? hex_digit(key->data[i + 2]) : -1;
            if (high < 0 || low < 0)
                return false;
            c = (char)(high * 16 + low);
            i += 2;
        } else if (c == '+') {
            c = ' ';
        }
        to[size] = c;
    }
    key->size = size;
    return true;
}

/* The number of bytes at the start of the text that form a character that XML 1.0 forbids,
 * literally or as "&#1;"; 0 if there is none. */
static size_t forbidden_size(struct view text)
{
    if (!s3_xml_can_carry(view_first(text, 1)))
        return 1;
    if (text.data[0] == '\xef' && text.size >= 3 && !s3_xml_can_carry(view_first(text, 3)))
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
    struct parse parse = { .opened = listing_opened,
                           .closing = listing_closing,
                           .argument = listing };
    *listing = (struct listing){ .page = listing->page };
    listing->page->count = 0;
    listing->page->truncated = false;
    return parse_document(&parse, xml, error);
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

enum hf_status s3_xml_listing(struct view xml, struct s3_page *page, struct hf_error *error)
{
    struct listing listing = { .page = page };
    if (listing_parse(xml, &listing, error) != HF_OK &&
        listing_repaired(xml, &listing, error) != HF_OK)
        return error->status;
    if (!listing.truncation_known)
        return error_set(error, HF_CORRUPT,
                         "the store sent a listing that does not say whether it is complete");
    for (size_t i = 0; i < page->count; i++) {
        struct view *key = &page->entries[i].key;
        if ((listing.encoded && !decode_key(key)) || key->size == 0 ||
            key->size > KEY_BYTES_MAX)
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

static void deletion_opened(struct parse *parse)
{
    struct deletion *deletion = parse->argument;
    if (parse->depth == 1 && strcmp(parse->names[0], "DeleteResult") != 0)
        stop_parsing(parse, "it is not the reply to a delete");
    if (parse->depth == 2)
        deletion->key_size = 0;
}

static void deletion_closing(struct parse *parse)
{
    struct deletion *deletion = parse->argument;
    struct view text = buffer_view(&parse->text);
    if (parse->depth == 3 && stands_in(parse, "Error", "Key")) {
        if (text.size > KEY_BYTES_MAX) {
            stop_parsing(parse, "it contains a key that is too long");
            return;
        }
        memcpy(deletion->key, text.data, text.size);
        deletion->key_size = text.size;
    } else if (parse->depth == 3 && stands_in(parse, "Error", "Code")) {
        snprintf(deletion->code, sizeof deletion->code, "%.*s", VIEW_ARGS(text));
    } else if (parse->depth == 3 && stands_in(parse, "Error", "Message")) {
        snprintf(deletion->message, sizeof deletion->message, "%.*s", VIEW_ARGS(text));
    } else if (parse->depth == 2 && strcmp(name_above(parse, 0), "Error") == 0) {
        deletion->failed(deletion->argument, (struct view){ deletion->key, deletion->key_size },
                         view_of(deletion->code), view_of(deletion->message));
        deletion->code[0] = deletion->message[0] = '\0';
    }
}

enum hf_status s3_xml_deleted(struct view xml, s3_delete_failed *failed, void *argument,
                              struct hf_error *error)
{
    struct deletion deletion = { .failed = failed, .argument = argument };
    struct parse parse = { .opened = deletion_opened,
                           .closing = deletion_closing,
                           .argument = &deletion };
    return parse_document(&parse, xml, error);
}

/* ---- Writing ------------------------------------------------------------------------- */

bool s3_xml_escape(struct buffer *to, struct view text)
{
    for (size_t i = 0; i < text.size; i++) {
        char c = text.data[i];
        if (c == '&' || c == '<' || c == '>' || c == '"' || c == '\'' || c == '\r' ||
            c == '\n' || c == '\t')
            buffer_print(to, "&#%d;", c);
        else
            buffer_append_byte(to, c);
    }
    return !to->failed;
}

bool s3_xml_can_carry(struct view text)
{
    for (size_t i = 0; i < text.size; i++) {
        unsigned char c = (unsigned char)text.data[i];
        if (c < 0x20 && c != '\t' && c != '\n' && c != '\r')
            return false;
        /* U+FFFE and U+FFFF: EF BF BE, EF BF BF */
        if (c == 0xef && i + 2 < text.size && (unsigned char)text.data[i + 1] == 0xbf &&
            (unsigned char)text.data[i + 2] >= 0xbe)
            return false;
    }
    return true;
}
