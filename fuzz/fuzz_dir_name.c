/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_dir_name.c: converts keys to paths and back. Every key must have exactly one path,
 * inside the store, and every path must lead back to its key or to none. */
#include "../tests/dir_path.h"
#include "base/check.h"
#include "fuzz.h"

/* Relative, no empty or dotted name, none longer than a file system takes. */
static void check_path_stays_inside(struct view path)
{
    check(path.size > 0 && path.size < DIR_PATH_MAX && view_find(path, '\0') == path.size);
    check(path.data[path.size - 1] != '/');
    struct view rest = path;
    while (rest.size > 0) {
        struct view name = view_cut(&rest, '/');
        check(name.size > 0 && name.size <= 255);
        check(!view_equal(name, VIEW(".")) && !view_equal(name, VIEW("..")));
        struct dir_name decoded;
        check(dir_name_decode(name, &decoded));
        check(decoded.size <= sizeof decoded.bytes);
    }
}

static void key_holds(struct view key)
{
    struct dir_path path;
    char back[KEY_BYTES_MAX];
    size_t back_size = 0;
    dir_path_encode(key, &path);
    check(path.text[path.size] == '\0');
    check_path_stays_inside((struct view){ path.text, path.size });
    check(dir_path_decode((struct view){ path.text, path.size }, back, &back_size));
    check(view_equal(key, (struct view){ back, back_size }));

    /* Standing aside, it is still the same key. */
    path.text[path.size++] = '%';
    check(dir_path_decode((struct view){ path.text, path.size }, back, &back_size));
    check(view_equal(key, (struct view){ back, back_size }));
}

static void path_holds(struct view text)
{
    char key[KEY_BYTES_MAX];
    size_t key_size = 0;
    if (!dir_path_decode(text, key, &key_size))
        return;
    check(key_size >= 1 && key_size <= KEY_BYTES_MAX);
    struct dir_path path;
    dir_path_encode((struct view){ key, key_size }, &path);
    struct view canonical = { path.text, path.size };
    bool aside = text.size == path.size + 1 && text.data[path.size] == '%';
    check(view_starts_with(text, canonical) && (text.size == path.size || aside));
}

static void name_holds(struct view text)
{
    struct dir_name name;
    if (dir_name_decode(text, &name))
        check(name.size <= sizeof name.bytes && text.size > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct view input = { (const char *)data, size };
    if (size >= 1 && size <= KEY_BYTES_MAX)
        key_holds(input);
    path_holds(input);
    name_holds(input);
    return 0;
}
