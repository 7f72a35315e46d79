/* xml.h: what S3 answers in XML, read with bounds on depth, sizes and counts. Pure: no
 * network. A document with a DOCTYPE is refused, so there are no entities to expand. */
#ifndef STORE_S3_XML_H
#define STORE_S3_XML_H

#include "store/store.h"

/* One text to look for, by the name of its element, wherever it stands; the first one counts.
 */
struct s3_xml_field {
    const char *name;
    char *text; /* NUL-terminated; cut to fit, empty when it is not there */
    size_t size;
};

/* CORRUPT when it is not well-formed or its outermost element is not `root`. */
enum hf_status s3_xml_fields(struct view xml, const char *root,
                             const struct s3_xml_field *fields, size_t count,
                             struct hf_error *error);

/* Whether some element `name` has exactly this text. CORRUPT as above. */
enum hf_status s3_xml_says(struct view xml, const char *root, const char *name,
                           const char *text, bool *ret_says, struct hf_error *error);

struct s3_error_body {
    char code[64];
    char message[120];
    char region[40];
    char endpoint[80];
    char server_time[40];
};

/* False, with all empty, when the body is not an S3 error. */
bool s3_xml_error(struct view xml, struct s3_error_body *ret_body);

/* One page of a listing. Keys are whole and decoded, and live in the arena; objects and groups
 * stand in the order in which the store sent them. */
struct s3_page {
    struct arena *arena;
    struct list_entry *entries;
    size_t max; /* room in `entries`; a page with more is CORRUPT */
    size_t count;
    bool truncated;
};

enum hf_status s3_xml_listing(struct view xml, struct s3_page *page, struct hf_error *error);

/* The answer to a multi-object delete in quiet mode: calls `failed` for each key that was not
 * deleted. */
typedef void s3_delete_failed(void *argument, struct view key, struct view code,
                              struct view message);
enum hf_status s3_xml_deleted(struct view xml, s3_delete_failed *failed, void *argument,
                              struct hf_error *error);

/* Appends text with "&", "<", ">" and quotes escaped. */
bool s3_xml_escape(struct buffer *to, struct view text);

/* Can XML 1.0 carry this text at all? Control characters it cannot. */
bool s3_xml_can_carry(struct view text);

#endif
