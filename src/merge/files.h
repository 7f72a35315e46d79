/* files.h: merges whose inputs or output are descriptors. An input is reached by its name in /proc;
 * an output is merged in a scratch folder first: nothing may be written before all is well. */
#ifndef MERGE_FILES_H
#define MERGE_FILES_H

#include "merge/merge.h"

/* A file by its path, or, where that is NULL, by a descriptor. */
struct merge_file {
    const char *path;
    int fd;
};

/* As merge_files. A reject_path of NULL: the output's name with ".rejects" behind it; INVALID where
 * the output has none and rejects_max allows some. */
enum hf_status merge_any_files(struct env *env, const struct merge_options *options,
                               const struct merge_file *inputs, size_t input_count,
                               const struct merge_file *output, struct merge_result *ret_result,
                               struct hf_error *error);

/* One per processor, up to 4: one thread merges, the others read ahead, and more than a few have
 * nothing to do. */
size_t merge_threads_usual(void);

#endif
