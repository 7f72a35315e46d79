/* SPDX-License-Identifier: Apache-2.0 */
/* name.c: turns keys into file paths and back. A name is accepted only in its one canonical form,
 * so two file names never represent the same key. */
#include "store/dir/name.h"

#include "base/check.h"
#include "base/parse.h"

/* ---- Encoding ------------------------------------------------------------------------ */

static bool is_plain_name_byte(char c)
{
    return c >= ' ' && c <= '~' && c != '%' && c != '/';
}

static bool is_dots(struct view segment)
{
    return view_equal(segment, VIEW(".")) || view_equal(segment, VIEW(".."));
}

static size_t put_byte(char c, bool plain, char *to)
{
    if (plain) {
        to[0] = c;
        return 1;
    }
    static const char digits[] = "0123456789ABCDEF";
    to[0] = '%';
    to[1] = digits[(unsigned char)c >> 4];
    to[2] = digits[(unsigned char)c & 15];
    return 3;
}

/* Encodes bytes of *segment up to the cut, removes them from it, and returns the encoded size.
 * A piece below DIR_PIECE_MIN is the last of its segment. `to` has room for DIR_PIECE_MAX. */
static size_t encode_piece(struct view *segment, char *to)
{
    if (segment->size == 0) {
        memcpy(to, "%-", 2);
        return 2;
    }
    bool dots = is_dots(*segment);
    size_t size = 0;
    while (segment->size > 0 && size < DIR_PIECE_MIN) {
        char c = segment->data[0];
        size += put_byte(c, is_plain_name_byte(c) && !dots, to + size);
        *segment = view_from(*segment, 1);
    }
    return size;
}

static void append_to_path(struct dir_path *path, const char *text, size_t size)
{
    check(size < sizeof path->text - path->size);
    memcpy(path->text + path->size, text, size);
    path->size += size;
}

static void append_segment(struct dir_path *path, struct view segment)
{
    for (;;) {
        char piece[DIR_PIECE_MAX];
        size_t size = encode_piece(&segment, piece);
        append_to_path(path, piece, size);
        if (size < DIR_PIECE_MIN)
            return;
        append_to_path(path, "%+/", 3);
    }
}

void dir_path_encode(struct view key, struct dir_path *ret_path)
{
    check(key.size >= 1 && key.size <= KEY_BYTES_MAX);
    ret_path->size = 0;
    for (;;) {
        size_t slash = view_find(key, '/');
        append_segment(ret_path, view_first(key, slash));
        if (slash == key.size)
            break;
        append_to_path(ret_path, "/", 1);
        key = view_from(key, slash + 1);
    }
    check(ret_path->size + 1 < sizeof ret_path->text);
    ret_path->text[ret_path->size] = '\0';
}

/* ---- Decoding ------------------------------------------------------------------------ */

static bool decode_bytes(struct view piece, struct dir_name *name)
{
    while (piece.size > 0) {
        size_t used = 1;
        char c = piece.data[0];
        if (c == '%') {
            int high = piece.size > 2 ? hex_digit(piece.data[1]) : -1;
            int low = piece.size > 2 ? hex_digit(piece.data[2]) : -1;
            if (high < 0 || low < 0)
                return false;
            c = (char)(high * 16 + low);
            used = 3;
        }
        if (name->size == sizeof name->bytes)
            return false;
        name->bytes[name->size++] = c;
        piece = view_from(piece, used);
    }
    return true;
}

/* Whether the piece is exactly the encoding of its bytes, cut where the encoder cuts. */
static bool is_canonical(const struct dir_name *name, struct view piece)
{
    struct view rest = { name->bytes, name->size };
    if (memchr(name->bytes, '/', name->size))
        return false;
    char again[DIR_PIECE_MAX];
    size_t size = encode_piece(&rest, again);
    bool cut = size >= DIR_PIECE_MIN;
    return rest.size == 0 && view_equal(piece, (struct view){ again, size }) &&
           cut == (name->kind == DIR_NAME_CONTINUED);
}

bool dir_name_decode(struct view name, struct dir_name *ret_name)
{
    struct view piece = name;
    ret_name->kind = DIR_NAME_PLAIN;
    ret_name->size = 0;
    if (view_ends_with(name, VIEW("%+"))) {
        ret_name->kind = DIR_NAME_CONTINUED;
        piece.size -= 2;
    } else if (view_ends_with(name, VIEW("%"))) {
        ret_name->kind = DIR_NAME_ASIDE;
        piece.size -= 1;
    }
    if (piece.size == 0 || piece.size > DIR_PIECE_MAX)
        return false;
    if (!view_equal(piece, VIEW("%-")) && !decode_bytes(piece, ret_name))
        return false;
    return is_canonical(ret_name, piece);
}
