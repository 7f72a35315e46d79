/* SPDX-License-Identifier: Apache-2.0 */
/* curl.c: libcurl, loaded when the first store on the network is opened.
 *
 * libcurl depends on some thirty libraries, which take longer to load than a whole `holdfast run`
 * on a local store takes. So Holdfast is not linked with it. Instead, the functions that we call
 * are defined here under their own names and pass each call on. They are hidden, so they do not
 * affect a program that uses libcurl itself. All of them but curl_global_init may be called only
 * after curl_global_init has succeeded. */
#define CURL_DISABLE_TYPECHECK
#include "file/library.h"

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

static const struct functions *curl_functions(void)
{
    return library_load(&library);
}

CURLcode curl_global_init(long flags)
{
    return curl_functions() ? curl_functions()->global_init(flags) : CURLE_FAILED_INIT;
}

void curl_global_cleanup(void)
{
    curl_functions()->global_cleanup();
}

CURL *curl_easy_init(void)
{
    return curl_functions()->easy_init();
}

void curl_easy_cleanup(CURL *handle)
{
    curl_functions()->easy_cleanup(handle);
}

void curl_easy_reset(CURL *handle)
{
    curl_functions()->easy_reset(handle);
}

CURLcode curl_easy_perform(CURL *handle)
{
    return curl_functions()->easy_perform(handle);
}

/* The range of the option's number gives the type of its value. */
CURLcode curl_easy_setopt(CURL *handle, CURLoption option, ...)
{
    CURLcode code;
    va_list values;
    va_start(values, option);
    if ((int)option < CURLOPTTYPE_OBJECTPOINT)
        code = curl_functions()->easy_setopt(handle, option, va_arg(values, long));
    else if ((int)option >= CURLOPTTYPE_OFF_T && (int)option < CURLOPTTYPE_BLOB)
        code = curl_functions()->easy_setopt(handle, option, va_arg(values, curl_off_t));
    else
        code = curl_functions()->easy_setopt(handle, option, va_arg(values, void *));
    va_end(values);
    return code;
}

const char *curl_easy_strerror(CURLcode code)
{
    return curl_functions()->easy_strerror(code);
}

time_t curl_getdate(const char *text, const time_t *unused)
{
    return curl_functions()->getdate(text, unused);
}
