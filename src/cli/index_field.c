/* index_field.c: the field that somebody names, and what they may have meant. */
#include "cli/index.h"

enum hf_status index_field(const struct schema *schema, struct view name, size_t *ret_field,
                           struct hf_error *error)
{
    size_t field = schema_find(schema, name);
    if (field < schema->field_count) {
        *ret_field = field;
        return HF_OK;
    }
    struct nearest nearest = { .wanted = name };
    struct buffer names = BUFFER_INIT(HF_WHY_MAX);
    for (size_t i = 0; i < schema->field_count; i++) {
        nearest_offer(&nearest, view_of(schema->fields[i]));
        buffer_print(&names, "%s%s", i ? ", " : "", schema->fields[i]);
    }
    error_set(error, HF_INVALID, "there is no field '%.*s'%s%.*s%s The fields are %.*s",
              VIEW_ARGS(view_first(name, INDEX_FIELD_BYTES)),
              nearest.best.data ? "; did you mean '" : "", VIEW_ARGS(nearest.best),
              nearest.best.data ? "'?" : ".", VIEW_ARGS(buffer_view(&names)));
    buffer_release(&names);
    return HF_INVALID;
}
