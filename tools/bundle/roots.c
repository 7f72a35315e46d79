/* SPDX-License-Identifier: Apache-2.0 */
/* roots.c: the certificates that a program with a libcurl of its own trusts.
 *
 * A distribution tells its libcurl where they are. Ours must look for them: each new handle gets
 * the first file that exists. A file that is set afterwards (SSL_CERT_FILE, `ca=` in a URL) takes
 * its place. */
#include <curl/curl.h>
#include <stddef.h>
#include <unistd.h>

CURL *init_with_roots(void);
void reset_with_roots(CURL *handle);

static void set_roots(CURL *handle)
{
    static const char *const files[] = {
        "/etc/ssl/certs/ca-certificates.crt",                /* Debian, Ubuntu, Arch, Alpine */
        "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", /* Fedora, RHEL */
        "/etc/pki/tls/certs/ca-bundle.crt", /* older ones of them, Amazon Linux */
        "/etc/ssl/ca-bundle.pem",           /* SUSE */
        "/etc/ssl/cert.pem",
    };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        if (access(files[i], R_OK) == 0) {
            curl_easy_setopt(handle, CURLOPT_CAINFO, files[i]);
            return;
        }
    }
}

CURL *init_with_roots(void)
{
    CURL *handle = curl_easy_init();
    if (handle)
        set_roots(handle);
    return handle;
}

void reset_with_roots(CURL *handle)
{
    curl_easy_reset(handle);
    set_roots(handle);
}
