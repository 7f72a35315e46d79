/* SPDX-License-Identifier: Apache-2.0 */
/* xml.h: reads the XML replies of stores, with bounds on depth, sizes and counts. No network. A
 * document with a DOCTYPE is refused, so there are no entities to expand. */
#ifndef STORE_REMOTE_XML_H
#define STORE_REMOTE_XML_H

#include "store/store.h"

/* Whether the library that parses XML can be loaded. */
bool xml_load(void);

/* ---- Any document -------------------------------------------------------------------- */

#define XML_DEPTH_MAX 16
#define XML_NAME_SIZE 48

/* The state of parsing one document: the path of open elements, and the text of the innermost
 * one. The caller sets the last three members. */
struct xml_parse {
    struct XML_ParserStruct *parser;
    char names[XML_DEPTH_MAX][XML_NAME_SIZE];
    size_t depth;
    size_t elements;
    struct buffer text;
    const char **attributes; /* of the element that `opened` is called for */
    const char *why;         /* set: parsing has stopped */
    void (*opened)(struct xml_parse *parse);
    void (*closing)(
        struct xml_parse *parse); /* for the innermost open element, with its text */
    void *argument;
};

/* CORRUPT if the document is not well-formed, or a callback has stopped it. */
enum hf_status xml_parse_document(struct xml_parse *parse, struct view xml,
                                  struct hf_error *error);

/* Stops parsing: the document is unusable for this reason. */
void xml_stop(struct xml_parse *parse, const char *why);

/* The name of the element `above` levels above the innermost one; empty above the root. */
const char *xml_name_above(const struct xml_parse *parse, size_t above);

/* In `opened`: the value of an attribute; data is NULL if it is missing. */
struct view xml_attribute(const struct xml_parse *parse, const char *name);

/* Whether the innermost element has this name and this parent. */
bool xml_is_in(const struct xml_parse *parse, const char *parent, const char *name);

/* ---- Single fields ------------------------------------------------------------------- */

/* A text to find: the contents of the first element with this name, anywhere in the document. */
struct xml_field {
    const char *name;
    char *text; /* NUL-terminated; truncated to fit; empty if missing */
    size_t size;
};

/* CORRUPT if the document is not well-formed or its root element is not `root`. */
enum hf_status xml_fields(struct view xml, const char *root, const struct xml_field *fields,
                          size_t count, struct hf_error *error);

/* Whether an element `name` has exactly this text. CORRUPT as above. */
enum hf_status xml_says(struct view xml, const char *root, const char *name, const char *text,
                        bool *ret_says, struct hf_error *error);

/* The error document of S3 and of Azure. Only S3 sends the last three. */
struct xml_error_body {
    char code[64];
    char message[120];
    char region[40];
    char endpoint[80];
    char server_time[40];
};

/* False, with empty members, if the body is not such an error. */
bool xml_error(struct view xml, struct xml_error_body *ret_body);

/* ---- Writing ------------------------------------------------------------------------- */

/* Appends text with "&", "<", ">" and quotes escaped. */
bool xml_escape(struct buffer *to, struct view text);

/* Whether XML 1.0 can represent this text; it cannot represent control characters. */
bool xml_can_carry(struct view text);

#endif
