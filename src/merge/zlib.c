/* SPDX-License-Identifier: Apache-2.0 */
/* zlib.c: zlib, loaded when the first gzip file is read or written. The functions that we call are
 * defined here under their own names and pass each call on (see src/store/remote/curl.c). All but
 * the first of each direction may be called only after it has succeeded. */
#define ZLIB_CONST
#include "file/library.h"

#include <assert.h>
#include <zlib.h>

struct functions {
    int (*inflate_init)(z_streamp stream, int window, const char *version, int size);
    int (*inflate)(z_streamp stream, int flush);
    int (*inflate_reset)(z_streamp stream);
    int (*inflate_end)(z_streamp stream);
    int (*deflate_init)(z_streamp stream, int level, int method, int window, int memory,
                        int strategy, const char *version, int size);
    int (*deflate)(z_streamp stream, int flush);
    int (*deflate_end)(z_streamp stream);
    const char *(*error)(int code);
};

/* In the order of struct functions. */
static const char *const symbols[] = {
    "inflateInit2_", "inflate", "inflateReset", "inflateEnd",
    "deflateInit2_", "deflate", "deflateEnd",   "zError",
};
static_assert(sizeof(struct functions) == sizeof symbols, "a symbol for each function");

static struct library library = { "libz.so.1", symbols, sizeof symbols / sizeof symbols[0],
                                  NULL };

static const struct functions *zlib_functions(void)
{
    return library_load(&library);
}

int inflateInit2_(z_streamp stream, int window, const char *version, int size)
{
    return zlib_functions() ? zlib_functions()->inflate_init(stream, window, version, size)
                            : Z_MEM_ERROR;
}

int inflate(z_streamp stream, int flush)
{
    return zlib_functions()->inflate(stream, flush);
}

int inflateReset(z_streamp stream)
{
    return zlib_functions()->inflate_reset(stream);
}

int inflateEnd(z_streamp stream)
{
    return zlib_functions()->inflate_end(stream);
}

int deflateInit2_(z_streamp stream, int level, int method, int window, int memory, int strategy,
                  const char *version, int size)
{
    return zlib_functions() ? zlib_functions()->deflate_init(stream, level, method, window,
                                                             memory, strategy, version, size)
                            : Z_MEM_ERROR;
}

int deflate(z_streamp stream, int flush)
{
    return zlib_functions()->deflate(stream, flush);
}

/* An encoder that could not be opened is ended, too. */
int deflateEnd(z_streamp stream)
{
    return zlib_functions() ? zlib_functions()->deflate_end(stream) : Z_STREAM_ERROR;
}

const char *zError(int code)
{
    return zlib_functions()->error(code);
}
