/* name.h: keys as paths of plain files, without loss and in order. Pure: no I/O.
 *
 * A key is split at "/"; each segment becomes a directory, the last one a file, so that a
 * person finds and reads them. Printable ASCII stays as it is. Everything else, and "%", is
 * written %XX in upper case; so are the dots of the segments "." and "..". An empty segment is
 * "%-".
 *
 * A segment whose encoding reaches DIR_PIECE_MIN bytes is cut there: its first piece is a
 * directory with "%+" behind it, and the rest, even an empty one, goes on inside. The cut
 * depends on the bytes before it alone, so all keys that share the piece are in that directory;
 * walking each directory in the order of the decoded names therefore gives keys in byte order.
 *
 * A file that cannot have its name because a directory has it (`a` beside `a/b`) stands aside,
 * with "%" behind its name. No encoding of a key holds a "%" that is neither followed by two
 * digits nor one of these marks, so names such as "%lock" can never be keys. */
#ifndef STORE_DIR_NAME_H
#define STORE_DIR_NAME_H

#include "base/limits.h"
#include "base/view.h"

#define DIR_PIECE_MIN 200

/* The longest piece: one byte short of the cut, one more byte escaped. */
#define DIR_PIECE_MAX (DIR_PIECE_MIN - 1 + 3)

/* Three bytes for each byte of the key, three more for each cut, a "%-" and the mark at the
 * end, and a NUL. */
#define DIR_PATH_MAX (3 * KEY_BYTES_MAX + 3 * (3 * KEY_BYTES_MAX / DIR_PIECE_MIN + 1) + 4)

static_assert(DIR_PIECE_MAX + 2 <= 255, "a piece and its mark are one file name");
static_assert(DIR_PATH_MAX <= 4096, "every key is one path for the kernel");

/* Relative to the root of the store, with a NUL behind it that `size` does not count. There is
 * always room for the mark of a file that stands aside. */
struct dir_path {
    size_t size;
    char text[DIR_PATH_MAX];
};

/* The key has 1 to KEY_BYTES_MAX bytes. */
void dir_path_encode(struct view key, struct dir_path *ret_path);

/* The key of a path as encoded, or of the same with the mark of a file that stands aside. False
 * for any path that no key has. */
bool dir_path_decode(struct view path, char ret_key[KEY_BYTES_MAX], size_t *ret_size);

enum dir_name_kind {
    DIR_NAME_PLAIN,     /* a file: the key ends here; a directory: "/" follows */
    DIR_NAME_ASIDE,     /* a file whose plain name is that of a directory */
    DIR_NAME_CONTINUED, /* a directory in which the segment goes on */
};

/* One name of a directory, decoded. */
struct dir_name {
    enum dir_name_kind kind;
    size_t size;
    char bytes[DIR_PIECE_MAX];
};

/* False for a name that no key leads to. */
bool dir_name_decode(struct view name, struct dir_name *ret_name);

#endif
