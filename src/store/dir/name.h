/* SPDX-License-Identifier: Apache-2.0 */
/* name.h: maps keys to paths of plain files, reversibly and in order. No I/O.
 *
 * A key is split at "/". Each segment becomes a directory and the last one a file, which a user can
 * find and read. Printable ASCII stays as it is. Every other byte, and "%", is written as %XX in
 * upper case, and so are the dots of the segments "." and "..". An empty segment is "%-".
 *
 * A segment whose encoding reaches DIR_PIECE_MIN bytes is cut there. Its first piece is a
 * directory whose name ends with "%+", and the rest, even if it is empty, is inside that
 * directory. The position of the cut depends only on the bytes before it, so all keys that
 * share the piece are in that directory. Therefore a walk through each directory in the order
 * of the decoded names gives keys in byte order.
 *
 * If a directory has the name of a file (`a` beside `a/b`), the file is set aside: its name
 * gets a trailing "%". An encoded key contains "%" only before two hex digits or in one of
 * these marks, so names such as "%lock" can never be keys. */
#ifndef STORE_DIR_NAME_H
#define STORE_DIR_NAME_H

#include "base/limits.h"
#include "base/view.h"

#define DIR_PIECE_MIN 200

/* The longest piece: one byte short of the cut, then one more escaped byte. */
#define DIR_PIECE_MAX (DIR_PIECE_MIN - 1 + 3)

/* Three bytes for each byte of the key, three more for each cut, a "%-", the mark at the end,
 * and a NUL. */
#define DIR_PATH_MAX (3 * KEY_BYTES_MAX + 3 * (3 * KEY_BYTES_MAX / DIR_PIECE_MIN + 1) + 4)

static_assert(DIR_PIECE_MAX + 2 <= 255, "a piece and its mark are one file name");
static_assert(DIR_PATH_MAX <= 4096, "every key is one path for the kernel");

/* A path relative to the root of the store. Its NUL is not counted in `size`. There is always room
 * for the mark of a file aside. */
struct dir_path {
    size_t size;
    char text[DIR_PATH_MAX];
};

/* The key is 1 to KEY_BYTES_MAX bytes long. */
void dir_path_encode(struct view key, struct dir_path *ret_path);

enum dir_name_kind {
    DIR_NAME_PLAIN,     /* a file: the key ends here; a directory: "/" follows */
    DIR_NAME_ASIDE,     /* a file whose plain name is that of a directory */
    DIR_NAME_CONTINUED, /* a directory in which the segment continues */
};

/* One decoded name in a directory. */
struct dir_name {
    enum dir_name_kind kind;
    size_t size;
    char bytes[DIR_PIECE_MAX];
};

/* False for a name that is not part of any key. */
bool dir_name_decode(struct view name, struct dir_name *ret_name);

#endif
