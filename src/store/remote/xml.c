/* SPDX-License-Identifier: Apache-2.0 */
/* xml.c: parses XML with bounds on depth, size and count, and refuses a DOCTYPE, so a broken or
 * hostile server cannot exhaust memory. */
#include "store/remote/xml.h"

#include "base/check.h"

#include <expat.h>
#include <stdio.h>

#define TEXT_MAX     (16 * KIB) /* a key of 1,024 bytes is 3,072 encoded */
#define ELEMENTS_MAX 100000

void xml_stop(struct xml_parse *parse, const char *why)
{
    if (!parse->why)
        parse->why = why;
    XML_StopParser(parse->parser, XML_FALSE);
}

const char *xml_name_above(const struct xml_parse *parse, size_t above)
{
    return parse->depth > above ? parse->names[parse->depth - 1 - above] : "";
}

bool xml_is_in(const struct xml_parse *parse, const char *parent, const char *name)
{
    return strcmp(xml_name_above(parse, 0), name) == 0 &&
           strcmp(xml_name_above(parse, 1), parent) == 0;
}

struct view xml_attribute(const struct xml_parse *parse, const char *name)
{
    for (const char **at = parse->attributes; at && at[0]; at += 2)
        if (strcmp(at[0], name) == 0)
            return view_of(at[1]);
    return (struct view){ NULL, 0 };
}

static void on_start(void *argument, const char *name, const char **attributes)
{
    struct xml_parse *parse = argument;
    if (parse->why)
        return;
    if (parse->depth == XML_DEPTH_MAX || ++parse->elements > ELEMENTS_MAX) {
        xml_stop(parse, "it is nested too deeply or has too many elements");
        return;
    }
    size_t size = strnlen(name, XML_NAME_SIZE - 1); /* longer names are unknown */
    memcpy(parse->names[parse->depth], name, size);
    parse->names[parse->depth++][size] = '\0';
    buffer_clear(&parse->text);
    parse->attributes = attributes;
    if (parse->opened)
        parse->opened(parse);
    parse->attributes = NULL;
}

static void on_end(void *argument, const char *name)
{
    struct xml_parse *parse = argument;
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
    struct xml_parse *parse = argument;
    if (!parse->why && !buffer_append(&parse->text, (struct view){ text, (size_t)size }))
        xml_stop(parse, "it contains a string that is too long");
}

static void on_doctype(void *argument, const char *name, const char *system_id,
                       const char *public_id, int internal)
{
    (void)name;
    (void)system_id;
    (void)public_id;
    (void)internal;
    xml_stop(argument, "it has a DOCTYPE");
}

enum hf_status xml_parse_document(struct xml_parse *parse, struct view xml,
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

bool xml_load(void)
{
    XML_Parser parser = XML_ParserCreate(NULL);
    if (parser)
        XML_ParserFree(parser);
    return parser != NULL;
}

/* ---- Single fields ------------------------------------------------------------------- */

struct field_search {
    const char *root;
    const struct xml_field *fields;
    size_t count;
};

static void check_root(struct xml_parse *parse)
{
    const struct field_search *search = parse->argument;
    if (parse->depth == 1 && strcmp(parse->names[0], search->root) != 0)
        xml_stop(parse, "it is not the reply that was expected");
}

static void keep_field(struct xml_parse *parse)
{
    const struct field_search *search = parse->argument;
    for (size_t i = 0; i < search->count; i++) {
        const struct xml_field *field = &search->fields[i];
        if (field->text[0] == '\0' && strcmp(xml_name_above(parse, 0), field->name) == 0)
            snprintf(field->text, field->size, "%.*s", VIEW_ARGS(buffer_view(&parse->text)));
    }
}

enum hf_status xml_fields(struct view xml, const char *root, const struct xml_field *fields,
                          size_t count, struct hf_error *error)
{
    struct field_search search = { root, fields, count };
    struct xml_parse parse = { .opened = check_root,
                               .closing = keep_field,
                               .argument = &search };
    for (size_t i = 0; i < count; i++)
        fields[i].text[0] = '\0';
    return xml_parse_document(&parse, xml, error);
}

struct text_search {
    struct field_search root; /* must be first: check_root reads it */
    const char *name;
    const char *text;
    bool found;
};

static void match_text(struct xml_parse *parse)
{
    struct text_search *search = parse->argument;
    if (strcmp(xml_name_above(parse, 0), search->name) == 0 &&
        view_equal(buffer_view(&parse->text), view_of(search->text)))
        search->found = true;
}

enum hf_status xml_says(struct view xml, const char *root, const char *name, const char *text,
                        bool *ret_says, struct hf_error *error)
{
    struct text_search search = { { root, NULL, 0 }, name, text, false };
    struct xml_parse parse = { .opened = check_root,
                               .closing = match_text,
                               .argument = &search };
    xml_parse_document(&parse, xml, error);
    *ret_says = search.found;
    return error->status;
}

bool xml_error(struct view xml, struct xml_error_body *ret_body)
{
    struct xml_error_body *body = ret_body;
    const struct xml_field fields[] = {
        { "Code", body->code, sizeof body->code },
        { "Message", body->message, sizeof body->message },
        { "Region", body->region, sizeof body->region },
        { "Endpoint", body->endpoint, sizeof body->endpoint },
        { "ServerTime", body->server_time, sizeof body->server_time },
    };
    *body = (struct xml_error_body){ 0 };
    if (xml.size == 0)
        return false;
    struct hf_error error;
    bool good = xml_fields(xml, "Error", fields, 5, &error) == HF_OK ||
                xml_fields(xml, "ErrorResponse", fields, 5, &error) == HF_OK;
    if (!good || body->code[0] == '\0')
        *body = (struct xml_error_body){ 0 };
    return body->code[0] != '\0';
}

/* ---- Writing ------------------------------------------------------------------------- */

bool xml_escape(struct buffer *to, struct view text)
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

bool xml_can_carry(struct view text)
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
