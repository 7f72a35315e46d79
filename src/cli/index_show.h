/* index_show.h: records of an index as text: usv as they are; csv and tsv with a header; JSON
 * lines; or lines for people. */
#ifndef CLI_INDEX_SHOW_H
#define CLI_INDEX_SHOW_H

#include "cli/index.h"

struct index_show {
    struct schema schema; /* as it was at first: all lines have the same fields */
    enum rows_format format;
    struct output *out;
    bool began;          /* usv: the first record is written */
    struct buffer value; /* of the field that is being written ... */
    struct buffer text;  /* ... and how it is written */
};

void index_show_init(struct index_show *show, const struct schema *schema,
                     enum rows_format format, struct output *out);
void index_show_release(struct index_show *show);

/* The line of the names of the fields, where the format has one. */
void index_show_header(struct index_show *show);

/* One record. Fields that it leaves out are empty. A write that fails is told by the output. */
enum hf_status index_show_record(struct index_show *show, struct view bytes,
                                 struct hf_error *error);

#endif
