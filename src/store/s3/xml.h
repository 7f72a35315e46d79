/* SPDX-License-Identifier: Apache-2.0 */
/* xml.h: reads the XML replies of S3, with bounds on depth, sizes and counts. No network. A
 * document with a DOCTYPE is refused, so there are no entities to expand. */
#ifndef STORE_S3_XML_H
#define STORE_S3_XML_H

#include "store/store.h"

/* Whether the library that parses XML can be loaded. */
bool s3_xml_load(void);

/* A text to find: the contents of the first element with this name, anywhere in the document. */
struct s3_xml_field {
    const char *name;
    char *text; /* NUL-terminated; truncated to fit; empty if missing */
    size_t size;
};

/* CORRUPT if the document is not well-formed or its root element is not `root`. */
enum hf_status s3_xml_fields(struct view xml, const char *root,
                             const struct s3_xml_field *fields, size_t count,
                             struct hf_error *error);

/* Whether an element `name` has exactly this text. CORRUPT as above. */
enum hf_status s3_xml_says(struct view xml, const char *root, const char *name,
                           const char *text, bool *ret_says, struct hf_error *error);

struct s3_error_body {
    char code[64];
    char message[120];
    char region[40];
    char endpoint[80];
    char server_time[40];
};

/* False, with empty members, if the body is not an S3 error. */
bool s3_xml_error(struct view xml, struct s3_error_body *ret_body);

/* One page of a listing. Keys are complete and decoded, and are stored in the arena. Objects
 * and groups are in the order in which the store sent them. */
struct s3_page {
    struct arena *arena;
    struct list_entry *entries;
    size_t max; /* room in `entries`; a page with more is CORRUPT */
    size_t count;
    bool truncated;
};

enum hf_status s3_xml_listing(struct view xml, struct s3_page *page, struct hf_error *error);

/* Reads the reply to a multi-object delete in quiet mode. Calls `failed` for each key that was
 * not deleted. */
typedef void s3_delete_failed(void *argument, struct view key, struct view code,
                              struct view message);
enum hf_status s3_xml_deleted(struct view xml, s3_delete_failed *failed, void *argument,
                              struct hf_error *error);

/* Appends text with "&", "<", ">" and quotes escaped. */
bool s3_xml_escape(struct buffer *to, struct view text);

/* Whether XML 1.0 can represent this text; it cannot represent control characters. */
bool s3_xml_can_carry(struct view text);

#endif
