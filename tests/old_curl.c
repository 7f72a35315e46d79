/* SPDX-License-Identifier: Apache-2.0 */
/* old_curl.c: stands in for a libcurl from before 7.80: it does not know the option by which http.c
 * learns that a request is about to be sent, and every request that it sends gets no reply. */
#pragma GCC visibility push(default)
#include <curl/curl.h>
#include <stdlib.h>

#undef curl_easy_setopt

CURLcode curl_global_init(long flags)
{
    (void)flags;
    return CURLE_OK;
}

void curl_global_cleanup(void)
{
}

CURL *curl_easy_init(void)
{
    return malloc(1);
}

void curl_easy_cleanup(CURL *handle)
{
    free(handle);
}

void curl_easy_reset(CURL *handle)
{
    (void)handle;
}

CURLcode curl_easy_perform(CURL *handle)
{
    (void)handle;
    return CURLE_GOT_NOTHING;
}

CURLcode curl_easy_setopt(CURL *handle, CURLoption option, ...)
{
    (void)handle;
    return option == CURLOPT_PREREQFUNCTION ? CURLE_UNKNOWN_OPTION : CURLE_OK;
}

const char *curl_easy_strerror(CURLcode code)
{
    return code == CURLE_UNKNOWN_OPTION ? "An unknown option" : "Something";
}

time_t curl_getdate(const char *text, const time_t *unused)
{
    (void)text;
    (void)unused;
    return -1;
}
