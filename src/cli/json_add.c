/* json_add.c: objects and arrays of JSON, built without a check after each step. */
#include "cli/json_add.h"

#include "base/limits.h"
#include "base/parse.h"
#include "base/utf8.h"
#include "cli/output.h"

#include <inttypes.h>
#include <stdio.h>

void json_add(json_t **object, const char *name, json_t *value)
{
    if (*object && json_object_set_new(*object, name, value) == 0)
        return;
    if (!*object)
        json_decref(value);
    json_decref(*object);
    *object = NULL;
}

void json_add_count(json_t **object, const char *name, uint64_t value)
{
    json_add(object, name, json_integer((json_int_t)value));
}

void json_add_bool(json_t **object, const char *name, bool value)
{
    json_add(object, name, json_boolean(value));
}

void json_add_key(json_t **object, const char *name, struct view key)
{
    struct view text = key.data ? key : VIEW(""); /* as the prefix of a listing of everything */
    if (*object && json_set_key(*object, name, text))
        return;
    json_decref(*object);
    *object = NULL;
}

void json_add_words(json_t **object, const char *name, struct view words)
{
    struct buffer text = BUFFER_INIT(8 * KEY_BYTES_MAX);
    if (words.size == 0) {
        json_add(object, name, json_null());
    } else if (utf8_is_valid(words)) {
        json_add(object, name, json_stringn(words.data, words.size));
    } else {
        bool fits = escape_append(&text, words);
        json_add(object, name, fits ? json_stringn(text.data, text.size) : NULL);
    }
    buffer_release(&text);
}

void json_add_time_ms(json_t **object, const char *name, int64_t ms)
{
    char text[TIME_TEXT_MAX];
    json_add(object, name, json_string(time_text((struct wall_time){ ms * 1000 }, text)));
}

void json_add_span(json_t **object, const char *name, struct span span)
{
    json_add(object, name, json_integer((json_int_t)(span.us / 1000)));
}

void json_add_crc32c(json_t **object, const char *name, uint32_t crc)
{
    char text[9];
    snprintf(text, sizeof text, "%08" PRIx32, crc);
    json_add(object, name, json_string(text));
}

void json_push(json_t **array, json_t *value)
{
    if (*array && json_array_append_new(*array, value) == 0)
        return;
    if (!*array)
        json_decref(value);
    json_decref(*array);
    *array = NULL;
}
