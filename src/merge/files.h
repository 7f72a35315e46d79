/* SPDX-License-Identifier: Apache-2.0 */
/* files.h: merges whose inputs or output are descriptors. An input is opened by its name in /proc,
 * or copied to a scratch file if it is a pipe or a device (spool.h), even if it is given by its
 * path. The output is first written to a scratch folder, because nothing may be written to the
 * descriptor before the merge has succeeded. */
#ifndef MERGE_FILES_H
#define MERGE_FILES_H

#include "merge/merge.h"

struct merge_handles {
    const struct hf_merge_file *inputs;
    size_t input_count;
    const struct hf_merge_file *output;
    const char *const *input_names; /* for messages; NULL, or an entry NULL: the path */
};

/* Like merge_files. reject_path NULL: the output's name with ".rejects" appended; INVALID if the
 * output has no name and rejects_max is not 0. */
enum hf_status merge_any_files(struct env *env, const struct merge_options *options,
                               const struct merge_handles *files,
                               struct merge_result *ret_result, struct hf_error *error);

/* The default number of threads: one per processor, up to 4. One thread merges, and the others read
 * ahead; more of them would be idle. */
size_t merge_threads_usual(void);

#endif
