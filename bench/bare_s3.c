/* SPDX-License-Identifier: Apache-2.0 */
/* bare_s3.c: signs and sends S3 requests with bare libcurl, as a baseline for the s3 store. */
#include "bare_s3.h"

#include "base/base64.h"
#include "base/check.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/parse.h"
#include "place.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define DAY_SIZE       8
#define HASH_TEXT_SIZE (2 * SHA256_BYTES + 1)
#define MD5_SIZE       16
#define MD5_TEXT_SIZE  25
#define NAMES          "host;x-amz-content-sha256;x-amz-date"

static size_t read_body(char *to, size_t size, size_t count, void *argument)
{
    struct bare *bare = argument;
    struct view left = view_first(view_from(bare->body, bare->sent), size * count);
    memcpy(to, left.data, left.size);
    bare->sent += left.size;
    return left.size;
}

static size_t write_reply(char *from, size_t size, size_t count, void *argument)
{
    struct bare *bare = argument;
    return buffer_append(&bare->reply, (struct view){ from, size * count }) ? size * count : 0;
}

void bare_open(struct bare *bare, const char *endpoint)
{
    *bare = (struct bare){ .handle = curl_easy_init(),
                           .gateway = endpoint + strlen("http://"),
                           .reply = BUFFER_INIT(8 * MIB) };
    curl_easy_setopt(bare->handle, CURLOPT_TCP_NODELAY, 1L);
    curl_easy_setopt(bare->handle, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(bare->handle, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(bare->handle, CURLOPT_READFUNCTION, read_body);
    curl_easy_setopt(bare->handle, CURLOPT_READDATA, bare);
    curl_easy_setopt(bare->handle, CURLOPT_WRITEFUNCTION, write_reply);
    curl_easy_setopt(bare->handle, CURLOPT_WRITEDATA, bare);
}

void bare_close(struct bare *bare)
{
    curl_easy_cleanup(bare->handle);
    buffer_release(&bare->reply);
}

/* ---- Signing (AWS Signature Version 4) ----------------------------------------------- */

static void hash_text(struct view bytes, char text[HASH_TEXT_SIZE])
{
    unsigned char digest[SHA256_BYTES];
    hash_sha256(bytes, digest);
    hex_encode(digest, sizeof digest, text);
}

static void hmac(const void *key, size_t size, const char *text,
                 unsigned char ret_digest[SHA256_BYTES])
{
    check(HMAC(EVP_sha256(), key, (int)size, (const unsigned char *)text, strlen(text),
               ret_digest, NULL));
}

static void use_day(struct bare *bare, const char *date)
{
    static const char first[] = "AWS4" CEPH_SECRET_KEY;
    if (memcmp(bare->day, date, DAY_SIZE) == 0)
        return;
    memcpy(bare->day, date, DAY_SIZE);
    hmac(first, sizeof first - 1, bare->day, bare->key);
    hmac(bare->key, sizeof bare->key, "us-east-1", bare->key);
    hmac(bare->key, sizeof bare->key, "s3", bare->key);
    hmac(bare->key, sizeof bare->key, "aws4_request", bare->key);
}

static void authorize(const struct bare *bare, const char *canonical, const char *names,
                      const char *date, char line[512])
{
    char hash[HASH_TEXT_SIZE], signature[HASH_TEXT_SIZE], text[256];
    unsigned char digest[SHA256_BYTES];
    hash_text(view_of(canonical), hash);
    snprintf(text, sizeof text, "AWS4-HMAC-SHA256\n%s\n%s/us-east-1/s3/aws4_request\n%s", date,
             bare->day, hash);
    hmac(bare->key, sizeof bare->key, text, digest);
    hex_encode(digest, sizeof digest, signature);
    snprintf(line, 512,
             "Authorization: AWS4-HMAC-SHA256 Credential=" CEPH_ACCESS_KEY
             "/%s/us-east-1/s3/aws4_request,SignedHeaders=%s,Signature=%s",
             bare->day, names, signature);
}

/* ---- Sending ------------------------------------------------------------------------- */

static struct curl_slist *add_line(struct curl_slist *lines, const char *name,
                                   const char *value)
{
    char line[256];
    snprintf(line, sizeof line, "%s: %s", name, value);
    return curl_slist_append(lines, line);
}

/* `md5` is NULL for a get. */
static void send_signed(struct bare *bare, const char *method, const char *path,
                        const char *query, const char *hash, const char *md5)
{
    char date[32], url[1024], canonical[2048], line[512];
    struct tm calendar;
    time_t now = time(NULL);
    strftime(date, sizeof date, "%Y%m%dT%H%M%SZ", gmtime_r(&now, &calendar));
    use_day(bare, date);
    const char *names = md5 ? "content-md5;" NAMES : NAMES;
    snprintf(canonical, sizeof canonical,
             "%s\n%s\n%s\n%s%s%shost:%s\nx-amz-content-sha256:%s\nx-amz-date:%s\n\n%s\n%s",
             method, path, query, md5 ? "content-md5:" : "", md5 ? md5 : "", md5 ? "\n" : "",
             bare->gateway, hash, date, names, hash);
    authorize(bare, canonical, names, date, line);
    struct curl_slist *lines = curl_slist_append(NULL, "Expect:");
    lines = add_line(lines, "x-amz-content-sha256", hash);
    lines = add_line(lines, "x-amz-date", date);
    lines = md5 ? add_line(lines, "content-md5", md5) : lines;
    lines = curl_slist_append(lines, line);
    snprintf(url, sizeof url, "http://%s%s%s%s", bare->gateway, path, query[0] ? "?" : "",
             query);
    curl_easy_setopt(bare->handle, CURLOPT_URL, url);
    curl_easy_setopt(bare->handle, CURLOPT_HTTPHEADER, lines);
    bare->sent = 0;
    buffer_clear(&bare->reply);
    CURLcode code = curl_easy_perform(bare->handle);
    long status = 0;
    curl_easy_getinfo(bare->handle, CURLINFO_RESPONSE_CODE, &status);
    if (code != CURLE_OK || status != 200)
        bench_die("bare %s: %s, status %ld", method, curl_easy_strerror(code), status);
    curl_slist_free_all(lines);
}

void bare_put(struct bare *bare, const char *key, struct view body)
{
    char hash[HASH_TEXT_SIZE], md5[MD5_TEXT_SIZE], path[256];
    unsigned char digest[MD5_SIZE];
    snprintf(path, sizeof path, "/" CEPH_BUCKET "/%s", key);
    hash_text(body, hash);
    check(EVP_Digest(body.data, body.size, digest, NULL, EVP_md5(), NULL) == 1);
    base64_encode((struct view){ (const char *)digest, sizeof digest }, md5);
    bare->body = body;
    curl_easy_setopt(bare->handle, CURLOPT_UPLOAD, 1L);
    curl_easy_setopt(bare->handle, CURLOPT_INFILESIZE_LARGE, (curl_off_t)body.size);
    send_signed(bare, "PUT", path, "", hash, md5);
}

void bare_list(struct bare *bare, const char *query)
{
    char hash[HASH_TEXT_SIZE];
    hash_text(VIEW(""), hash);
    curl_easy_setopt(bare->handle, CURLOPT_HTTPGET, 1L);
    send_signed(bare, "GET", "/" CEPH_BUCKET, query, hash, NULL);
}
