/* SPDX-License-Identifier: Apache-2.0 */
/* zstd.c: zstd, loaded when the first zstd file is read or written. The functions that we call are
 * defined here under their own names and pass each call on (see src/store/remote/curl.c). All but
 * those that create a context may be called only after one was created. */
#include "file/library.h"

/* The headers would make these functions visible outside of the library. */
#define ZSTDLIB_VISIBLE
#define ZSTDLIB_VISIBILITY
#define ZSTDERRORLIB_VISIBLE
#define ZSTDERRORLIB_VISIBILITY
#include <assert.h>
#include <zstd.h>
#include <zstd_errors.h>

struct functions {
    ZSTD_DCtx *(*create_d)(void);
    size_t (*free_d)(ZSTD_DCtx *context);
    size_t (*sizeof_d)(const ZSTD_DCtx *context);
    size_t (*set_d)(ZSTD_DCtx *context, ZSTD_dParameter parameter, int value);
    ZSTD_bounds (*bounds_d)(ZSTD_dParameter parameter);
    size_t (*decompress)(ZSTD_DCtx *context, ZSTD_outBuffer *out, ZSTD_inBuffer *in);
    ZSTD_CCtx *(*create_c)(void);
    size_t (*free_c)(ZSTD_CCtx *context);
    size_t (*set_c)(ZSTD_CCtx *context, ZSTD_cParameter parameter, int value);
    size_t (*compress)(ZSTD_CCtx *context, ZSTD_outBuffer *out, ZSTD_inBuffer *in,
                       ZSTD_EndDirective end);
    unsigned (*is_error)(size_t code);
    const char *(*error_name)(size_t code);
    ZSTD_ErrorCode (*error_code)(size_t code);
};

/* In the order of struct functions. */
static const char *const symbols[] = {
    "ZSTD_createDCtx",        "ZSTD_freeDCtx",         "ZSTD_sizeof_DCtx",
    "ZSTD_DCtx_setParameter", "ZSTD_dParam_getBounds", "ZSTD_decompressStream",
    "ZSTD_createCCtx",        "ZSTD_freeCCtx",         "ZSTD_CCtx_setParameter",
    "ZSTD_compressStream2",   "ZSTD_isError",          "ZSTD_getErrorName",
    "ZSTD_getErrorCode",
};
static_assert(sizeof(struct functions) == sizeof symbols, "a symbol for each function");

static struct library library = { "libzstd.so.1", symbols, sizeof symbols / sizeof symbols[0],
                                  NULL };

static const struct functions *zstd_functions(void)
{
    return library_load(&library);
}

/* ---- Decompressing ------------------------------------------------------------------- */

ZSTD_DCtx *ZSTD_createDCtx(void)
{
    return zstd_functions() ? zstd_functions()->create_d() : NULL;
}

/* Whoever has no context need not load the library. */
size_t ZSTD_freeDCtx(ZSTD_DCtx *context)
{
    return context ? zstd_functions()->free_d(context) : 0;
}

size_t ZSTD_sizeof_DCtx(const ZSTD_DCtx *context)
{
    return zstd_functions()->sizeof_d(context);
}

size_t ZSTD_DCtx_setParameter(ZSTD_DCtx *context, ZSTD_dParameter parameter, int value)
{
    return zstd_functions()->set_d(context, parameter, value);
}

ZSTD_bounds ZSTD_dParam_getBounds(ZSTD_dParameter parameter)
{
    return zstd_functions()->bounds_d(parameter);
}

size_t ZSTD_decompressStream(ZSTD_DCtx *context, ZSTD_outBuffer *out, ZSTD_inBuffer *in)
{
    return zstd_functions()->decompress(context, out, in);
}

/* ---- Compressing --------------------------------------------------------------------- */

ZSTD_CCtx *ZSTD_createCCtx(void)
{
    return zstd_functions() ? zstd_functions()->create_c() : NULL;
}

size_t ZSTD_freeCCtx(ZSTD_CCtx *context)
{
    return context ? zstd_functions()->free_c(context) : 0;
}

size_t ZSTD_CCtx_setParameter(ZSTD_CCtx *context, ZSTD_cParameter parameter, int value)
{
    return zstd_functions()->set_c(context, parameter, value);
}

size_t ZSTD_compressStream2(ZSTD_CCtx *context, ZSTD_outBuffer *out, ZSTD_inBuffer *in,
                            ZSTD_EndDirective end)
{
    return zstd_functions()->compress(context, out, in, end);
}

/* ---- Errors -------------------------------------------------------------------------- */

unsigned ZSTD_isError(size_t code)
{
    return zstd_functions()->is_error(code);
}

const char *ZSTD_getErrorName(size_t code)
{
    return zstd_functions()->error_name(code);
}

ZSTD_ErrorCode ZSTD_getErrorCode(size_t code)
{
    return zstd_functions()->error_code(code);
}
