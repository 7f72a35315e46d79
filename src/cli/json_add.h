/* json_add.h: objects and arrays of JSON, built without a check after each step: what has failed
 * once stays NULL, and output_json tells it. */
#ifndef CLI_JSON_ADD_H
#define CLI_JSON_ADD_H

#include "base/moment.h"
#include "base/view.h"

#include <jansson.h>

/* Sets a member unless there is no memory: then the whole becomes NULL, which output_json tells. */
void json_add(json_t **object, const char *name, json_t *value);
void json_add_count(json_t **object, const char *name, uint64_t value);
void json_add_bool(json_t **object, const char *name, bool value);

/* A key, as json_set_key has it. */
void json_add_key(json_t **object, const char *name, struct view key);

/* Words for people, with what is not UTF-8 escaped; null when there are none. */
void json_add_words(json_t **object, const char *name, struct view words);

/* Milliseconds since 1970 as RFC 3339. */
void json_add_time_ms(json_t **object, const char *name, int64_t ms);

/* Whole milliseconds; the name ends with _ms. */
void json_add_span(json_t **object, const char *name, struct span span);

/* A checksum, as eight hexadecimal digits. */
void json_add_crc32c(json_t **object, const char *name, uint32_t crc);

/* Appends, with the same care. */
void json_push(json_t **array, json_t *value);

#endif
