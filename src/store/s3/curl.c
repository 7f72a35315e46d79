/* curl.c: libcurl, loaded when the first store on the network is opened.
 *
 * It brings some thirty libraries with it, which take longer to load than a whole `holdfast
 * run` on a local store may last. So nothing of ours is linked with it. Instead the few
 * functions that we call stand here under their own names (hidden, so that a program with a
 * libcurl of its own has that), and pass each call on. All but curl_global_init are called only
 * after that has succeeded. */
#define CURL_DISABLE_TYPECHECK
#include "store/s3/library.h"

#include <assert.h>
#include <curl/curl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#undef curl_easy_setopt

struct functions {
    CURLcode (*global_init)(long flags);
    void (*global_cleanup)(void);
    CURL *(*easy_init)(void);
    void (*easy_cleanup)(CURL *handle);
    void (*easy_reset)(CURL *handle);
    CURLcode (*easy_perform)(CURL *handle);
    CURLcode (*easy_setopt)(CURL *handle, CURLoption option, ...);
    const char *(*easy_strerror)(CURLcode code);
    time_t (*getdate)(const char *text, const time_t *unused);
};

/* In the order of struct functions. */
static const char *const symbols[] = {
    "curl_global_init",  "curl_global_cleanup", "curl_easy_init",
    "curl_easy_cleanup", "curl_easy_reset",     "curl_easy_perform",
    "curl_easy_setopt",  "curl_easy_strerror",  "curl_getdate",
};
static_assert(sizeof(struct functions) == sizeof symbols, "a symbol for each function");

static struct library library = { "libcurl.so.4", symbols, sizeof symbols / sizeof symbols[0],
                                  NULL };

static const struct functions *real(void)
{
    return library_load(&library);
}

CURLcode curl_global_init(long flags)
{
    return real() ? real()->global_init(flags) : CURLE_FAILED_INIT;
}

void curl_global_cleanup(void)
{
    real()->global_cleanup();
}

CURL *curl_easy_init(void)
{
    return real()->easy_init();
}

void curl_easy_cleanup(CURL *handle)
{
    real()->easy_cleanup(handle);
}

void curl_easy_reset(CURL *handle)
{
    real()->easy_reset(handle);
}

CURLcode curl_easy_perform(CURL *handle)
{
    return real()->easy_perform(handle);
}

/* The type of the one value is told by the range that the option's number is in. */
CURLcode curl_easy_setopt(CURL *handle, CURLoption option, ...)
{
    CURLcode code;
    va_list values;
    va_start(values, option);
    if ((int)option < CURLOPTTYPE_OBJECTPOINT)
        code = real()->easy_setopt(handle, option, va_arg(values, long));
    else if ((int)option >= CURLOPTTYPE_OFF_T && (int)option < CURLOPTTYPE_BLOB)
        code = real()->easy_setopt(handle, option, va_arg(values, curl_off_t));
    else
        code = real()->easy_setopt(handle, option, va_arg(values, void *));
    va_end(values);
    return code;
}

const char *curl_easy_strerror(CURLcode code)
{
    return real()->easy_strerror(code);
}

time_t curl_getdate(const char *text, const time_t *unused)
{
    return real()->getdate(text, unused);
}
