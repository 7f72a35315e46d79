/* SPDX-License-Identifier: Apache-2.0 */
/* dir_path.h: the way back from the paths of a `dir:` store to its keys, whole. */
#ifndef TESTS_DIR_PATH_H
#define TESTS_DIR_PATH_H

#include "store/dir/name.h"

/* The key of a path as encoded, or of the same with the mark of a file that stands aside. False
 * for any path that no key has. */
bool dir_path_decode(struct view path, char ret_key[KEY_BYTES_MAX], size_t *ret_size);

#endif
